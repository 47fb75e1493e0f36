package gvl

import "github.com/ddtop/ddtop/sampler"

// replay goes through the changes of a step.
func (s *Stream) replay(c *sampler.Changes) {
	e := &s.exact
	if e.sub != nil {
		for i := len(c.List) - 1; i >= 0; i-- {
			if c.List[i].Thread == e.sub.id {
				e.subLast = i
				break
			}
		}
	}
	now, middle := e.step.fromNS, false
	for i := range c.List {
		g := &c.List[i]
		// What came before says in what state a thread is, and not since when.
		initial := c.Fresh && g.AtNS <= c.FromNS || g.AtNS <= e.step.fromNS
		at := g.AtNS
		if initial && at > e.step.fromNS {
			at = e.step.fromNS + (min(at, e.step.toNS)-e.step.fromNS)/2
		}
		now = min(max(at, now), e.step.toNS)
		if now > e.step.midNS && !middle {
			middle = true
			s.middle(c, i)
		}
		s.changed(g, i, now, initial)
	}
	if !middle {
		s.middle(c, len(c.List))
	}
}

// reachesSample reports whether the stretch in which the sample at the end of the step saw a thread hold the GVL is the one that it is in
// before the change at a place of the list.
func (e *exactStream) reachesSample(r *streamThread, c *sampler.Changes, before int) bool {
	return r == e.sub && e.subLast < before && (e.subLast < 0 || c.List[e.subLast].State == sampler.GVLHeld)
}

// middle is the middle of a step: what the samples say of the holder's stretch changes there.
func (s *Stream) middle(c *sampler.Changes, before int) {
	e := &s.exact
	h := e.holder
	if h == nil {
		return
	}
	l := s.mainLane()
	now := l.now
	to, d := Running, Detail{FD: -1}
	if e.reachesSample(h, c, before) {
		ts := &e.states[e.subAt]
		to, d = ts.State, ts.Detail
		e.seeHolder(&now)
	}
	now.State, now.GCReason, now.Stopped = to, d.GCReason, to == Stalled && halts(d.Syscall)
	at := e.step.midNS
	if now != l.now {
		s.settleLock(l, at)
		now.FromNS, now.ToNS = l.now.FromNS, l.now.ToNS
		l.now = now
	}
	if h.state != to {
		s.cut(h, at)
		h.state, h.stateNS, h.runNS, h.sinceNS, h.stepNS = to, at, at, at, e.step.lengthNS()
	}
	h.detail = d
}

// seeHolder takes over what the sample at the end of the step has of the holder's stack.
func (e *exactStream) seeHolder(i *LockInterval) {
	t := &e.sample.Threads[e.subAt]
	i.Stack, i.Serving = e.states[e.subAt].Stack, t.Serving
	if t.Quality&sampler.StackFailed != 0 {
		i.Stack = 0
	}
	i.Turn = i.Stack
}

// changed takes one change.
func (s *Stream) changed(g *sampler.Change, place int, at int64, initial bool) {
	e := &s.exact
	var r *streamThread
	if g.Thread != 0 {
		if rec := s.table.get(g.Thread); rec != nil {
			if r = &rec.v; r.ractor != mainRactor {
				return
			}
		}
	}
	sure := !g.Doubtful && !initial
	if r == nil {
		s.unlisted(g, at, sure)
		return
	}
	u, was := e.short[g.TID]
	if was {
		s.noUnlisted(g.TID, at)
	}
	if r.unbegun && !r.begun {
		if g.State == sampler.GVLGone {
			return
		}
		r.beginAt(at)
	}
	r.endedNS = 0
	if r.exactWait && g.NoCPUNS > 0 {
		r.noCPUNS = min(r.noCPUNS, 1<<61) + min(g.NoCPUNS, 1<<61)
	}
	if !sure {
		r.exactWait = false
		if g.Doubtful {
			r.stepNS = e.step.lengthNS()
		}
	}
	switch g.State {
	case sampler.GVLGone:
		s.enter(r, sampler.GVLReleased, at, false, false)
		r.known, r.endedNS = false, at
	case sampler.GVLReleased, sampler.GVLQueued, sampler.GVLChosen, sampler.GVLHeld:
		if g.State == sampler.GVLHeld && g.Stack != 0 && r.gvl == sampler.GVLHeld && r.known && e.holder == r && !r.unbegun {
			s.runs(r, g.Stack, at)
			return
		}
		goesOn := sampler.StackID(0)
		if g.State == sampler.GVLHeld && g.Stack != 0 && placeOf(r.state) == placeWaiting {
			s.waitedWith(r, g.Stack, at)
			goesOn = g.Stack
			if !r.before.state.Held() && g.Resumes != 0 { // what it had released the GVL for is over
				goesOn = g.Resumes
			}
		}
		s.enter(r, g.State, at, sure, e.reachesSample(r, &e.sample.Changes, place+1) && at > e.step.midNS)
		if g.State == sampler.GVLHeld {
			s.mainLane().now.Turn = goesOn
			if e.reachesSample(r, &e.sample.Changes, place+1) && (goesOn == 0 || at > e.step.midNS) {
				e.seeHolder(&s.mainLane().now) // else from the middle of the step on
			}
		}
		if initial && r.stepNS == 0 {
			r.stepNS = e.step.lengthNS()
		}
		if was {
			s.listedNow(r, &u)
		}
	}
}

// runs takes the stack that the holder of the GVL has at a time.
func (s *Stream) runs(r *streamThread, stack sampler.StackID, at int64) {
	s.read(r, look{stack, r.look.serving}, at)
	l := s.mainLane()
	s.settleLock(l, at)
	l.now.Stack = stack
}

// beginAt begins a thread's time with a change.
func (r *streamThread) beginAt(at int64) {
	r.begun = true
	r.fromNS, r.stateNS, r.waitNS, r.runNS, r.sinceNS, r.stepNS, r.before = at, at, at, at, at, 0, waitBefore{}
	r.state, r.open, r.detail = Unknown, true, notAsked
}

// enter brings a thread into a state at a time, by a change. sure: that it was not in it before is sure. seen: it is held until the
// sample at the end of the step, and that says all of it.
func (s *Stream) enter(r *streamThread, to sampler.GVLState, at int64, sure, seen bool) {
	e := &s.exact
	was, is := placeOf(r.state), placeReleased
	switch to {
	case sampler.GVLHeld:
		is = placeHeld
	case sampler.GVLQueued, sampler.GVLChosen:
		is = placeWaiting
	}
	yields := is == placeWaiting && r.yields(at)
	switch kind, d := r.lastKind, r.kindDetail; {
	case yields:
		if r.open && !r.unseen {
			r.detail = Detail{FD: -1}
			s.tell(r, Native) // a sample has cut it
		}
		r.state, r.detail, r.open = Native, Detail{FD: -1}, false
		s.leave(r, was, at)
		r.lastKind, r.kindDetail = kind, d
	case was != is:
		s.leave(r, was, at)
	}
	switch to {
	case sampler.GVLHeld:
		if s.unchosen && was == placeWaiting {
			r.chosenNS = e.freedNS // what came before is that the GVL was held
		}
		if h := e.holder; h != nil && h != r {
			h.stepNS = e.step.lengthNS()
			s.enter(h, sampler.GVLReleased, at, false, false)
		}
	case sampler.GVLChosen:
		if e.chosen = r; r.chosenNS == 0 || was != is {
			r.chosenNS = at
		}
		if e.lonely != nil && e.lonely != r && e.lonelyNS == at {
			e.lonely.first, e.lonely = r.id, nil
		}
		if e.lonelyShort != 0 {
			e.behindChosen(r, at)
		}
	}
	if e.chosen == r && to != sampler.GVLChosen {
		e.chosen = nil
	}
	if was == is {
		if is == placeWaiting && r.kind != waitKind(to) {
			s.cut(r, at)
			r.kindOf(waitKind(to), at)
		}
		r.gvl, r.known, r.against = to, true, 0
		return
	}
	x := ThreadState{State: Running, Detail: Detail{FD: -1}}
	switch is {
	case placeHeld:
		if seen {
			x.State, x.Detail = e.states[e.subAt].State, e.states[e.subAt].Detail
		}
	case placeWaiting:
		x.State, x.Detail.Wait, x.Detail.After = Waiting, waitKind(to), r.state
	case placeReleased:
		if x.State, x.Detail = r.lastKind, r.kindDetail; x.State == Unknown && x.Detail.Reason == "" {
			x.Detail = notAsked
		}
	}
	s.change(r, &x, at, at)
	r.wait = waitSpan{}
	if yields {
		x.Detail.After = Running
		r.before.state, r.before.sinceNS, r.before.atNS = Running, r.heldNS, r.letGoNS
	}
	r.state, r.kind, r.detail, r.open = x.State, x.Detail.Wait, x.Detail, x.Open()
	r.runNS, r.sinceNS, r.stepNS = at, at, 0
	r.gvl, r.known, r.seen, r.against = to, true, false, 0
	s.arrive(r, is, at, sure)
}
