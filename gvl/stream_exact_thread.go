package gvl

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// kindOf lets a wait go on in another way.
func (r *streamThread) kindOf(k WaitKind, at int64) {
	r.kind, r.detail.Wait = k, k
	r.runNS, r.sinceNS, r.stepNS = at, at, 0
}

// yields reports whether a thread that comes into the queue had not released the GVL for anything: it had a whole time slice, and is on
// its way into the queue. No sample saw that.
func (r *streamThread) yields(at int64) bool {
	return r.known && r.gvl == sampler.GVLReleased && !r.seen && r.letGoNS == r.runNS && at-r.runNS <= yieldNS && r.letGoNS-r.heldNS >= sliceNS/2
}

// leave ends a thread's stretch in a place.
func (s *Stream) leave(r *streamThread, was place, at int64) {
	e, l := &s.exact, s.mainLane()
	s.cut(r, at)
	switch was {
	case placeHeld:
		s.settleLock(l, at)
		if e.last, e.freedNS, r.letGoNS = r.id, at, at; e.holder == r {
			e.holder = nil
			l.vacate()
		}
	case placeWaiting:
		s.settleLock(l, at)
		l.now.Waiters--
	case placeReleased:
		switch {
		case r.open && r.lastKind != Unknown:
			r.detail = r.kindDetail
			s.tell(r, r.lastKind)
		case r.open:
			if r.open = false; !r.unseen && at > r.runNS {
				r.unseen, r.unseenNS = true, r.runNS
			}
		case r.state != Unknown || r.lastKind == Unknown:
			r.lastKind, r.kindDetail = r.state, r.detail
		}
	}
}

// arrive begins a thread's stretch in a place.
func (s *Stream) arrive(r *streamThread, is place, at int64, sure bool) {
	e, l := &s.exact, s.mainLane()
	switch is {
	case placeHeld:
		s.settleLock(l, at)
		e.holder, e.unlisted, r.heldNS = r, 0, at
		l.vacate()
		l.now.Thread, l.now.State, l.now.GCReason = r.id, r.state, r.detail.GCReason
		l.now.Stopped = r.state == Stalled && halts(r.detail.Syscall)
		of := r.look
		if p := &r.looks[placeHeld]; p.atNS != 0 && at-p.atNS <= lookNS && p.serving.Work == of.serving.Work {
			of = p.look
		}
		l.now.Stack, l.now.Serving = of.stack, of.serving
	case placeWaiting:
		s.settleLock(l, at)
		l.now.Waiters++
		r.exactWait, r.noCPUNS, r.first, r.chosenNS = sure, 0, 0, 0
		if r.kind == WaitHandover {
			r.chosenNS = at
		}
		switch {
		case e.holder != nil:
			r.first = e.holder.id
		case l.now.Unlisted.Holds:
		case e.chosen != nil && e.chosen != r:
			r.first = e.chosen.id
		default:
			if e.lonelyNS != at {
				e.lonelyShort = 0
			}
			e.lonely, e.lonelyNS = r, at
		}
	}
}

// waitedWith takes the stack with which a wait ended, at a time: the thread had it since it gave the GVL away.
func (s *Stream) waitedWith(r *streamThread, stack sampler.StackID, at int64) {
	s.cut(r, at)
	for i := len(r.segments) - 1; i >= 0 && placeOf(r.segments[i].state) != placeHeld; i-- {
		r.segments[i].stack = stack
	}
	r.waitStack = stack
}

// atSample takes what the sample at the end of a step says of a thread, after the changes.
func (s *Stream) atSample(r *streamThread, ts *ThreadState, t *sampler.Thread) {
	e := &s.exact
	st := e.step
	r.endedNS = 0
	switch {
	case r.unbegun && !r.begun:
		s.beginUnchanged(r, ts, t)
	case r.ractor != mainRactor:
		s.advance(r, ts, st)
	default:
		s.compare(r, ts)
	}
	if r.ractor != mainRactor && ts.Ractor != mainRactor && placeOf(ts.State) != placeReleased {
		s.seeLock(ts, t)
	}
	if e.holder == r && ts.stopped() {
		s.stopped = true
	}
	if !r.unbegun && (e.sample.Depth == sampler.StackTick || t.Quality&sampler.StackFresh != 0) {
		s.read(r, lookAt(t), st.toNS)
	}
	r.unbegun = false
}

// beginUnchanged begins the time of a thread that is new and did not change.
func (s *Stream) beginUnchanged(r *streamThread, ts *ThreadState, t *sampler.Thread) {
	e := &s.exact
	st := e.step
	if r.ractor != mainRactor {
		r.begin(ts, t, st.midNS, st)
		return
	}
	now := *ts
	if now.State.Held() && s.isHeld(r) {
		now.State, now.Detail = Unknown, notAsked
	}
	at, is := st.midNS, placeOf(now.State)
	if is != placeReleased {
		at = st.toNS // the changes until then have been told
	}
	r.begin(&now, t, at, st)
	s.arrive(r, is, at, false)
}

// isHeld reports whether another thread holds the GVL, by changes.
func (s *Stream) isHeld(r *streamThread) bool {
	h := s.exact.holder
	return h != nil && h != r && h.known || s.mainLane().now.Unlisted.Holds
}

// compare takes a sample of a thread whose changes until then are known.
func (s *Stream) compare(r *streamThread, ts *ThreadState) {
	e := &s.exact
	own, is := placeOf(r.state), placeOf(ts.State)
	switch {
	case own == is, own == placeReleased && ts.State == Waiting && ts.Detail.Wait == WaitYield: // it is not in the queue yet
		r.against = 0
	case r.known:
		if r.against == 0 {
			r.againstNS = e.step.toNS
		}
		r.against = min(r.against+1, maxAgainst)
		if r.against == maxAgainst && e.step.toNS-r.againstNS >= againstNS {
			r.known, r.exactWait = false, false
		}
	}
	switch {
	case own == placeReleased && is == placeReleased:
		s.seeReleased(r, ts)
	case own == placeHeld && is == placeHeld:
		if ts.State == r.state {
			r.detail = ts.Detail
		}
	case r.known:
	case own == is:
		s.advance(r, ts, e.step)
	case is == placeHeld && s.isHeld(r):
	default:
		s.turnTo(r, ts, own, is)
	}
}

// turnTo brings a thread of which no change is known to another place, as the sample at the end of the step saw it: since nothing
// changed in it, it was so before or comes now.
func (s *Stream) turnTo(r *streamThread, ts *ThreadState, was, is place) {
	e := &s.exact
	at := e.step.toNS
	s.leave(r, was, at)
	if h := e.holder; is == placeHeld && h != nil {
		s.enter(h, sampler.GVLReleased, at, false, false)
		h.known, h.stepNS = false, e.step.lengthNS()
	}
	s.change(r, ts, at, at)
	r.run(ts, at, e.step)
	s.arrive(r, is, at, false)
	if r == e.sub {
		e.seeHolder(&s.mainLane().now)
	}
}

// seeReleased takes from a sample what a thread has released the GVL for.
func (s *Stream) seeReleased(r *streamThread, ts *ThreadState) {
	st := s.exact.step
	if r.unseen && !r.open {
		if ts.State.Released() {
			s.tellSegments(r, ts.State, &ts.Detail)
		} else if st.fromNS-r.unseenNS > s.steps.reach.BackNS {
			s.giveUp(r)
		}
	}
	if !r.known || r.seen {
		s.advance(r, ts, st)
		return
	}
	// The first sample of the stretch says all of it.
	r.seen, r.sinceNS = true, max(r.runNS, ts.SinceNS)
	if r.open && !ts.Open() {
		r.detail = ts.Detail
		s.tell(r, ts.State)
	}
	r.state, r.detail, r.open = ts.State, ts.Detail, ts.Open()
}

// giveUp ends all open time of a thread without an answer.
func (s *Stream) giveUp(r *streamThread) {
	s.tellSegments(r, Unknown, &notAsked)
	if r.open {
		r.state, r.detail, r.open = Unknown, notAsked, false
	}
}

// goneNS is when a thread ended that is no longer listed.
func (s *Stream) goneNS(r *streamThread) int64 {
	e := &s.exact
	if r.ractor != mainRactor {
		return e.step.midNS
	}
	if r.endedNS != 0 {
		return r.endedNS
	}
	was := placeOf(r.state)
	if was == placeReleased {
		return max(e.step.midNS, r.fromNS, r.runNS)
	}
	l := s.mainLane()
	s.settleLock(l, e.step.toNS)
	switch {
	case was == placeWaiting:
		l.now.Waiters--
	case e.holder == r:
		l.vacate()
	}
	return e.step.toNS
}

// mainLane is the lane of the GVL that changes are about.
func (s *Stream) mainLane() *lockLane {
	if s.lock < len(s.locks) && s.locks[s.lock].now.Ractor == mainRactor {
		return &s.locks[s.lock]
	}
	if !slices.ContainsFunc(s.locks, func(l lockLane) bool { return l.now.Ractor == mainRactor }) {
		none := LockInterval{Ractor: mainRactor, FromNS: s.exact.step.fromNS, ToNS: s.exact.step.fromNS}
		s.locks = append(s.locks, lockLane{now: none, next: LockInterval{Ractor: mainRactor}})
	}
	return s.lockOf(mainRactor)
}

// vacate lets nobody hold the GVL.
func (l *lockLane) vacate() {
	l.now = LockInterval{Ractor: l.now.Ractor, Waiters: l.now.Waiters, Unlisted: Unlisted{Waiters: l.now.Unlisted.Waiters}, FromNS: l.now.FromNS, ToNS: l.now.ToNS}
}

// heldSince is since when a thread holds the main ractor's GVL, by changes; ok is false where they don't say it.
func (s *Stream) heldSince(id sampler.ThreadID) (ns int64, ok bool) {
	h := s.exact.holder
	if !s.exact.live || h == nil || h.id != id || !h.known {
		return 0, false
	}
	return h.heldNS, true
}

// countLane finds out who holds and waits by the last sample, before the first step that is cut by changes.
func (s *Stream) countLane(st step) {
	e, l := &s.exact, s.mainLane()
	s.settleLock(l, st.fromNS)
	e.holder, l.now.Waiters, l.now.Unlisted = nil, 0, Unlisted{}
	for _, rec := range s.table.byID {
		switch r := &rec.v; {
		case r.unbegun || r.ractor != mainRactor:
		case r.state == Waiting:
			if l.now.Waiters++; r.kind == WaitHandover {
				e.chosen = r
			}
		case r.state.Held() && e.holder != nil:
			s.enter(r, sampler.GVLReleased, st.fromNS, false, false) // one GVL has one holder
			r.known = false
		case r.state.Held():
			e.holder, r.heldNS = r, r.stateNS
		}
	}
	switch h := e.holder; {
	case h == nil:
		l.vacate()
	case h.id != l.now.Thread:
		l.vacate()
		l.now.Thread, l.now.State, l.now.Stack, l.now.Serving = h.id, h.state, h.stack, h.serving
	}
}

// share gives a segment with exact edges to the last reading, to this one, or to each its part: to the one that saw the thread in the
// same place.
func (s *Stream) share(r *streamThread, g *segment, now look, state State, mid int64) {
	p := placeOf(g.state)
	was, is := placeOf(r.stackState) == p, placeOf(state) == p
	if was && is && r.stackState != state {
		was, is = g.state != state, g.state != r.stackState
	}
	a, b := r.look, now
	switch {
	case was && !is:
		b = a
	case is && !was:
		a = b
	case !is:
		a, b = r.past(p, g, a), r.past(p, g, b)
	}
	if a == b {
		s.settle(r, g, a, g.fromNS, g.toNS)
		return
	}
	at := min(max(mid, g.fromNS), g.toNS)
	s.settle(r, g, a, g.fromNS, at)
	s.settle(r, g, b, at, g.toNS)
}

// past is the last reading that saw the thread in a place, before a segment that neither of the readings around it did; of is what
// stands for it otherwise, where there is none for the same work.
func (r *streamThread) past(p place, g *segment, of look) look {
	if l := &r.looks[p]; l.atNS != 0 && g.fromNS-l.atNS <= lookNS && l.serving.Work == of.serving.Work {
		return l.look
	}
	return of
}

// lookOf is the reading of a segment with exact edges that none has followed.
func (r *streamThread) lookOf(g *segment, of look) look {
	p := placeOf(g.state)
	if placeOf(r.stackState) == p {
		return of
	}
	return r.past(p, g, of)
}
