package gvl

import "github.com/ddtop/ddtop/sampler"

// segment is a stretch of time with one state. State is openState while it is still to be told.
type segment struct {
	fromNS, toNS, stepNS int64
	state                State
	// exact: the edges are those of changes, or lie within such.
	exact  bool
	detail Detail
	// stack is the one that it had, where that is known by a change and need not be told from the readings around it; 0: it is not.
	stack sampler.StackID
}

// look is what was read of a thread's frames: its stack, and for whom it worked.
type look struct {
	stack   sampler.StackID
	serving sampler.Serving
}

// lookAt is what a sample has of a thread's frames.
func lookAt(t *sampler.Thread) look { return look{t.Stack, t.Serving} }

// untold is time with one reading whose state is still to be told, or that comes after such time.
type untold struct {
	segment
	look
}

// streamThread is what a Stream remembers of a thread.
type streamThread struct {
	// What each sample is compared with comes first, in one line of the CPU's cache. state goes on since runNS, and waits in
	// that kind, if it is Waiting; open: it is still to be told.
	slot  int
	runNS int64
	// sinceNS is when what it waits for began to be waited for, where that is later.
	sinceNS int64
	state   State
	kind    WaitKind
	open    bool

	id     sampler.ThreadID
	ractor sampler.RactorID
	detail Detail
	// stepNS is the length of the step that the state was seen to begin in.
	stepNS int64
	// stateNS is since when it is in that state, whatever it waited for in it; waitNS since when it waits for the GVL, if it
	// does, and before what it did until then.
	stateNS, waitNS int64
	before          waitBefore
	// wait is what samples say of the wait.
	wait waitSpan
	// fromNS is the time up to which segments reach.
	fromNS int64
	buffers
	// look is what was read last, in stackState.
	look
	stackState State
	exactThread
}

// waitBefore is what a thread did before it waited for the GVL; atNS is 0 if that was not seen.
type waitBefore struct {
	state         State
	stack         sampler.StackID
	sinceNS, atNS int64
	detail        Detail
}

// of is that as a state of a thread.
func (b *waitBefore) of(r *streamThread) ThreadState {
	if b.atNS == 0 {
		return ThreadState{}
	}
	return ThreadState{Thread: r.id, Ractor: r.ractor, State: b.state, Detail: b.detail, SinceNS: b.sinceNS, AtNS: b.atNS, Stack: b.stack}
}

// buffers are the lists of a thread: its segments since the last reading, and what is untold of earlier readings: time of the open
// run, or from the first stretch on that no sample has seen.
type buffers struct {
	segments []segment
	untold   []untold
}

// list gives a thread that was not listed before a slot, and memory.
func (s *Stream) list(r *streamThread, ts *ThreadState) {
	r.id, r.ractor = ts.Thread, ts.Ractor
	if n := len(s.spare); n > 0 {
		r.buffers, s.spare = s.spare[n-1], s.spare[:n-1]
	}
	if n := len(s.free); n > 0 {
		r.slot, s.free = s.free[n-1], s.free[:n-1]
	} else {
		r.slot = s.used
		s.used++
	}
}

// gone ends a thread that is no longer listed. cut: that it ended was not seen.
func (s *Stream) gone(r *streamThread, atNS int64, cut bool) {
	s.end(r, atNS, cut)
	for _, c := range s.to {
		c.Ended(r.slot, atNS)
	}
	s.free = append(s.free, r.slot)
	if cap(r.segments) <= keptSegments && cap(r.untold) <= keptSegments {
		s.spare = append(s.spare, buffers{r.segments[:0], r.untold[:0]})
	}
	s.exact.forget(r)
}

// begin starts a thread, or starts it again after a gap.
func (r *streamThread) begin(ts *ThreadState, t *sampler.Thread, atNS int64, st step) {
	r.fromNS, r.stateNS, r.waitNS, r.before = atNS, atNS, atNS, waitBefore{}
	r.run(ts, atNS, st)
	r.look, r.stackState = lookAt(t), r.now()
}

// run begins a stretch of time with one state.
func (r *streamThread) run(ts *ThreadState, atNS int64, st step) {
	r.state, r.kind, r.detail, r.open = ts.State, ts.Detail.Wait, ts.Detail, ts.Open()
	r.runNS, r.sinceNS, r.stepNS = atNS, atNS, st.lengthNS()
	r.wait = ts.wait
}

// now is the state for the segment that goes on.
func (r *streamThread) now() State {
	if r.open {
		return openState
	}
	return r.state
}

// advance takes a thread's state over: from st.midNS on, if it is another one.
func (s *Stream) advance(r *streamThread, ts *ThreadState, st step) {
	if r.open && st.fromNS-r.runNS > s.steps.reach.BackNS {
		s.tell(r, r.state)
	}
	if r.state == Waiting && ts.State == Waiting && !ts.same {
		s.waitsAgain(r, ts, st)
	}
	switch {
	case r.open && s.steps.reach.tells(ts, r.sinceNS, st.midNS):
		r.detail, r.stateNS = ts.Detail, r.runNS
		s.tell(r, ts.State)
	case ts.State == r.state && ts.State != Unknown && ts.SinceNS > r.sinceNS && !r.detail.names():
		// What it waits for was learned late.
		r.detail, r.sinceNS = ts.Detail, ts.SinceNS
	case ts.State != r.state, ts.SinceNS > r.sinceNS, ts.State == Waiting && ts.Detail.Wait != r.kind:
		s.cut(r, st.midNS)
		s.tell(r, r.state)
		if r.state != ts.State {
			s.change(r, ts, st.midNS, st.toNS)
		}
		r.run(ts, st.midNS, st)
	case !ts.same:
		r.detail = ts.Detail
	}
}

// waitsAgain takes what a sample says of a wait that the last sample saw, too. If the thread is known to have had the GVL in between, the
// wait is another one.
func (s *Stream) waitsAgain(r *streamThread, ts *ThreadState, st step) {
	if ts.wait.byNS > r.wait.byNS && r.wait.byNS != 0 && !r.exactWait && !r.known {
		at := min(max(ts.SinceNS, r.fromNS, r.waitNS), st.toNS)
		s.cut(r, at)
		s.waited(r, at, ts.wait.byNS, false)
		r.waitStack, r.waitNS, r.stateNS = 0, at, at
		r.before = waitBefore{sinceNS: at, atNS: at}
		r.run(ts, at, st)
		return
	}
	r.wait = ts.wait
}

// change ends a state and, if it was one, the wait for the GVL.
func (s *Stream) change(r *streamThread, ts *ThreadState, atNS int64, byNS int64) {
	if r.state == Waiting {
		s.waited(r, atNS, byNS, false)
		r.waitStack = 0
	}
	if ts.State == Waiting {
		r.waitNS = atNS
		r.before = waitBefore{r.state, r.stack, r.stateNS, atNS, r.detail}
	}
	r.stateNS = atNS
}

// waited hands out a wait that is over: by byNS at the latest, as far as samples tell. cut: that it ended was not seen.
func (s *Stream) waited(r *streamThread, atNS, byNS int64, cut bool) {
	s.wait = s.waitTo(r, atNS, byNS)
	s.wait.Cut = s.wait.Cut || cut
	if r.unbegun {
		s.exact.late = append(s.exact.late, s.wait) // nobody has heard of the thread yet
		return
	}
	for _, c := range s.to {
		c.Waited(&s.wait)
	}
}

// waitTo is the wait that goes on, up to a time, at most to byNS.
func (s *Stream) waitTo(r *streamThread, atNS, byNS int64) Wait {
	w := Wait{Thread: r.id, FromNS: r.waitNS, ToNS: atNS, After: r.detail.After, Before: r.before.of(r), Slot: r.slot, Stack: r.waitStack}
	if w.Stack != 0 {
		w.Before.Stack = w.Stack
	}
	if r.exactWait {
		s.exact.fill(r, &w)
	}
	w.bound(&r.wait, byNS, s.seenNS)
	return w
}

// Waiting calls fn with each wait that goes on.
func (s *Stream) Waiting(fn func(*Wait)) {
	for _, rec := range s.table.byID {
		if rec.v.state == Waiting {
			w := s.waitTo(&rec.v, s.steps.lastNS, s.steps.lastNS)
			w.InProgress = true
			fn(&w)
		}
	}
}

// waitOf returns the wait for the GVL that a thread is in; ok is false when it is in none.
func (s *Stream) waitOf(id sampler.ThreadID) (w Wait, ok bool) {
	rec := s.table.get(id)
	if rec == nil || rec.v.state != Waiting {
		return Wait{}, false
	}
	w = s.waitTo(&rec.v, s.steps.lastNS, s.steps.lastNS)
	w.InProgress = true
	return w, true
}

// slot returns the slot of a listed thread.
func (s *Stream) slot(id sampler.ThreadID) (slot int, ok bool) {
	rec := s.table.get(id)
	if rec == nil {
		return 0, false
	}
	return rec.v.slot, true
}

// Pending calls fn with what is not settled yet of a listed thread's time, up to the last sample, as it stands now.
func (s *Stream) Pending(id sampler.ThreadID, fn func(*Interval)) {
	rec := s.table.get(id)
	if rec == nil {
		return
	}
	r := &rec.v
	i := &s.pending
	i.Thread, i.Ractor, i.Slot = r.id, r.ractor, r.slot
	one := func(g segment, of look) {
		if g.state == openState {
			g.state, g.detail = Unknown, notAsked
		}
		i.State, i.Detail, i.Stack, i.Serving = g.state, g.detail, g.stackOr(of), of.serving
		i.FromNS, i.ToNS, i.ResolutionNS = g.fromNS, g.toNS, g.stepNS
		if i.ToNS > i.FromNS {
			fn(i)
		}
	}
	for _, u := range r.untold {
		one(u.segment, u.look)
	}
	for _, g := range r.segments {
		one(g, r.look)
	}
	one(r.goesOn(s.steps.lastNS), r.look)
}

// goesOn is the segment that goes on, up to a time.
func (r *streamThread) goesOn(atNS int64) segment {
	return segment{r.fromNS, atNS, r.stepNS, r.now(), r.known, r.detail, 0}
}

// stackOr is the segment's own stack, or that of the reading which it goes to.
func (g *segment) stackOr(of look) sampler.StackID {
	if g.stack != 0 {
		return g.stack
	}
	return of.stack
}

// cut lets the segment that goes on end, and the next one begin.
func (s *Stream) cut(r *streamThread, atNS int64) {
	if atNS <= r.fromNS {
		return
	}
	if len(r.segments) >= maxSegments && !s.exact.room(r) {
		s.release(r)
	}
	r.segments = append(r.segments, r.goesOn(atNS))
	s.exact.kept++
	r.fromNS = atNS
}

// tell ends an open run: the state of its time is known now, or never will be. What is not open stays as it is.
func (s *Stream) tell(r *streamThread, state State) {
	if !r.open {
		return
	}
	r.state, r.open = state, false
	s.tellSegments(r, state, &r.detail)
}

// tellSegments gives all open segments of a thread their state.
func (s *Stream) tellSegments(r *streamThread, state State, d *Detail) {
	r.unseen = false
	for i := range r.untold {
		u := &r.untold[i]
		if u.state == openState {
			u.state, u.detail = state, *d
		}
		s.handOut(r, &u.segment, u.look, u.fromNS, u.toNS)
	}
	r.untold = r.untold[:0]
	for i := range r.segments {
		if g := &r.segments[i]; g.state == openState {
			g.state, g.detail = state, *d
		}
	}
	if r.stackState == openState {
		r.stackState = state
	}
}

// read shares the time since the last reading of the stack between that one and this one.
func (s *Stream) read(r *streamThread, now look, atNS int64) {
	s.cut(r, atNS)
	state := r.now()
	if len(r.segments) > 0 {
		first := r.segments[0].fromNS
		if p := &r.looks[placeOf(r.stackState)]; s.exact.live && p.atNS == 0 && r.look.stack != 0 {
			*p = pastLook{r.look, first} // read before changes were known
		}
		mid := first + (atNS-first)/2
		for i := range r.segments {
			switch g := &r.segments[i]; {
			case g.exact:
				s.share(r, g, now, state, mid)
			case now == r.look, g.state == state && g.state != r.stackState:
				s.settle(r, g, now, g.fromNS, g.toNS)
			case g.state == r.stackState && g.state != state:
				s.settle(r, g, r.look, g.fromNS, g.toNS)
			default:
				at := min(max(mid, g.fromNS), g.toNS)
				s.settle(r, g, r.look, g.fromNS, at)
				s.settle(r, g, now, at, g.toNS)
			}
		}
		s.clear(r)
	}
	r.look, r.stackState = now, state
	if s.exact.live && now.stack != 0 {
		r.looks[placeOf(state)] = pastLook{now, atNS}
	}
}

// clear forgets the segments of a thread, which are handed out.
func (s *Stream) clear(r *streamThread) {
	s.exact.kept -= len(r.segments)
	r.shrink()
	r.segments = r.segments[:0]
}

// settle hands a part of a segment out, or holds it back until its state is told.
func (s *Stream) settle(r *streamThread, g *segment, of look, fromNS, toNS int64) {
	if toNS <= fromNS {
		return
	}
	if g.state == openState || len(r.untold) > 0 {
		u := untold{*g, of}
		u.fromNS, u.toNS = fromNS, toNS
		s.hold(r, &u)
		return
	}
	s.handOut(r, g, of, fromNS, toNS)
}

// handOut gives a part of a segment to the consumers.
func (s *Stream) handOut(r *streamThread, g *segment, of look, fromNS, toNS int64) {
	i := &s.out
	i.Thread, i.Ractor, i.Slot = r.id, r.ractor, r.slot
	i.State, i.Detail, i.Stack, i.Serving = g.state, g.detail, g.stackOr(of), of.serving
	i.FromNS, i.ToNS, i.ResolutionNS = fromNS, toNS, g.stepNS
	for _, c := range s.to {
		c.Interval(i)
	}
}

// hold keeps time whose state is still to be told, and what comes after it.
func (s *Stream) hold(r *streamThread, u *untold) {
	n := len(r.untold)
	if n > 0 {
		last := &r.untold[n-1]
		full := n >= maxUntold
		if open := last.state == openState && u.state == openState; open && (last.look == u.look && last.stackOr(last.look) == u.stackOr(u.look) || full) {
			last.toNS = u.toNS
			return
		}
		if n >= maxUntoldMixed {
			// So long a time is not waited for.
			s.giveUp(r)
			if u.state == openState {
				u.state, u.detail = Unknown, notAsked
			}
			s.handOut(r, &u.segment, u.look, u.fromNS, u.toNS)
			return
		}
	}
	r.untold = append(r.untold, *u)
}

// notSampled hands out a gap in the time of a thread.
func (s *Stream) notSampled(r *streamThread, st step) {
	s.settle(r, &segment{state: Unknown, detail: Detail{FD: -1, Reason: ReasonNotSampled}}, look{}, st.fromNS, st.toNS)
}

// end settles all that is held back of a thread, up to a time. cut: what it does may go on.
func (s *Stream) end(r *streamThread, atNS int64, cut bool) {
	s.cut(r, atNS)
	s.tell(r, r.state)
	if r.unseen || len(r.untold) > 0 {
		s.giveUp(r)
	}
	s.release(r)
	if r.state == Waiting {
		r.exactWait = false // it was not seen to end
		byNS := s.steps.lastNS
		if cut {
			byNS = atNS
		}
		s.waited(r, atNS, byNS, cut)
	}
}

// release gives a thread's segments to its last stack known.
func (s *Stream) release(r *streamThread) {
	for i := range r.segments {
		g := &r.segments[i]
		of := r.look
		if g.exact {
			of = r.lookOf(g, of)
		}
		s.settle(r, g, of, g.fromNS, g.toNS)
	}
	s.clear(r)
}
