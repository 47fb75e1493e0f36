package stream

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// segment is a period of a thread in one state. While the state is not known, it is openState.
type segment struct {
	fromNS, toNS, stepNS int64
	state                gvl.State
	// exact is true if changes of the GVL prove both ends of the segment. This means that each end is at a change, or
	// between two changes that prove it.
	exact  bool
	detail gvl.Detail
	// stack is a stack that a change has reported for this segment. If it is zero, the readings of the stack before and
	// after the segment decide its stack.
	stack sampler.StackID
	// work is the request that the thread worked for, as a change has reported for this segment. If it is zero, the
	// readings of the stack before and after the segment decide its request.
	work sampler.WorkID
}

// look is a reading of a thread's frames. It has the thread's stack, and the request that the thread worked for.
type look struct {
	stack   sampler.StackID
	serving sampler.Serving
}

func lookAt(t *sampler.Thread) look { return look{t.Stack, t.Serving} }

// untold is a period with one stack that cannot be passed on to consumers yet. Its state, or the state of an earlier
// period, is still unknown, and consumers get periods in order.
type untold struct {
	segment
	// look has the stack and the request of the period.
	look
}

// thread is a listed thread: its present state, and its time that was not yet passed to consumers. The thread's tracker
// decides when the state changes.
type thread struct {
	// The next fields are compared at each sample. They come first, so that they share a line of the CPU's cache. The
	// field state began at runNS. kind is the kind of waiting. The field open is true if the state is not known yet.
	by    tracker
	s     *Stream
	id    sampler.ThreadID
	slot  int
	runNS int64
	// sinceNS is when the thread began to wait for its present object, for example a Mutex. It is runNS if it has
	// waited for this object since the state began.
	sinceNS int64
	state   gvl.State
	kind    gvl.WaitKind
	open    bool
	// fresh is set if the thread was not in the last sample. known is set if the thread's last change of the GVL is
	// known, so that it decides the thread's present state.
	fresh, known bool
	// work is the request that the thread works for, as a change of the GVL has reported. It is zero if changes show no
	// request.
	work sampler.WorkID
	// unseen is set if the thread has been without the GVL since unseenNS, and no sample has shown yet what it does.
	unseen bool

	unseenNS int64
	ractor   sampler.RactorID
	detail   gvl.Detail
	// stepNS is the time between the two samples around the beginning of the state.
	stepNS int64
	// stateNS is when the thread entered its state. It stays the same if the thread begins to wait for another object
	// in this state. waitNS is when the thread began to wait for the GVL. The field before has the thread's state until
	// waitNS.
	stateNS, waitNS int64
	before          waitBefore
	span            gvl.WaitSpan
	// fromNS is the end of the last segment. The next one begins there.
	fromNS int64
	buffers
	// look is the last reading of the stack. stackState is the thread's state at that time.
	look
	stackState gvl.State
	// looks has the last reading of the stack for each place of the thread. The places are: holding the GVL, waiting
	// for it, or neither.
	looks [numPlaces]pastLook
	// most is the largest number of segments between two consecutive readings of the stack, over the last readings.
	// readings is the number of these readings. shrink uses both to free memory.
	most, readings int
	// changes is the tracker that follows the thread by changes. It is nil if the thread was never followed by changes.
	changes *exact
}

// waitBefore is what a thread did before it waited for the GVL. atNS is zero if this was not seen.
type waitBefore struct {
	state         gvl.State
	stack         sampler.StackID
	sinceNS, atNS int64
	detail        gvl.Detail
}

func (b *waitBefore) threadState(r *thread) gvl.ThreadState {
	if b.atNS == 0 {
		return gvl.ThreadState{}
	}
	return gvl.ThreadState{Thread: r.id, Ractor: r.ractor, State: b.state, Detail: b.detail, SinceNS: b.sinceNS, AtNS: b.atNS, Stack: b.stack}
}

// buffers holds a thread's time that is not passed on yet: its segments since the last reading of the stack, and
// earlier periods that must wait.
type buffers struct {
	segments []segment
	untold   []untold
}

// gone stops following a thread that the present sample does not list. cut is true if the thread's end was not seen.
func (r *thread) gone(atNS int64, cut bool) {
	r.by.leave()
	r.end(atNS, cut)
	for _, c := range r.s.to {
		c.Ended(r.slot, atNS)
	}
	r.s.free = append(r.s.free, r.slot)
	if cap(r.segments) <= keptSegments && cap(r.untold) <= keptSegments {
		r.s.spare = append(r.s.spare, buffers{r.segments[:0], r.untold[:0]})
	}
}

// begin starts to follow a thread, or starts again after a gap in the samples.
func (r *thread) begin(ts *gvl.ThreadState, t *sampler.Thread, atNS int64) {
	r.fromNS, r.stateNS, r.waitNS, r.before = atNS, atNS, atNS, waitBefore{}
	r.run(ts, atNS)
	r.look, r.stackState = lookAt(t), r.now()
}

// run begins a period in the state that a sample shows.
func (r *thread) run(ts *gvl.ThreadState, atNS int64) {
	r.goOn(ts.State, &ts.Detail, atNS, r.s.step.lengthNS())
	r.span = ts.Span
}

// goOn begins a period in a state. stepNS is the length of the step (the time between two samples) in which the period
// began.
func (r *thread) goOn(state gvl.State, d *gvl.Detail, atNS, stepNS int64) {
	r.state, r.kind, r.detail, r.open = state, d.Wait, *d, state == gvl.Unknown && d.Reason == gvl.ReasonNotAsked
	r.runNS, r.sinceNS, r.stepNS = atNS, atNS, stepNS
}

// now returns the state of the segment that is in progress. This is openState if the state is not known yet.
func (r *thread) now() gvl.State {
	if r.open {
		return openState
	}
	return r.state
}

// change ends the present state. If the thread waited for the GVL, change passes this wait to the consumers.
func (r *thread) change(to gvl.State, atNS int64, byNS int64) {
	if r.state == gvl.Waiting {
		r.waited(atNS, byNS, false)
	}
	if to == gvl.Waiting {
		r.waitNS = atNS
		r.before = waitBefore{r.state, r.stack, r.stateNS, atNS, r.detail}
	}
	r.stateNS = atNS
}

// waited passes a wait for the GVL to the consumers. atNS is its end, and byNS is the latest time at which it can have
// ended. cut is true if its end was not seen.
func (r *thread) waited(atNS, byNS int64, cut bool) {
	s := r.s
	r.fill(&s.wait, atNS, byNS)
	s.wait.Cut = s.wait.Cut || cut
	if r.fresh {
		s.late = append(s.late, s.wait) // consumers do not know the thread until the next Tick
		return
	}
	s.handOutWait()
}

func (s *Stream) handOutWait() {
	for _, c := range s.to {
		c.Waited(&s.wait)
	}
}

// fill sets w to the wait for the GVL that the thread is in.
func (r *thread) fill(w *gvl.Wait, atNS, byNS int64) {
	*w = gvl.Wait{Thread: r.id, FromNS: r.waitNS, ToNS: atNS, After: r.detail.After, Before: r.before.threadState(r), Slot: r.slot}
	r.by.wait(w)
	w.SetBounds(&r.span, byNS, r.s.seenNS)
}

// waits returns the wait for the GVL that the thread is in. ok is false if the thread does not wait for the GVL.
func (r *thread) waits() (w gvl.Wait, ok bool) {
	if r.state != gvl.Waiting {
		return gvl.Wait{}, false
	}
	r.fill(&r.s.open, r.s.steps.lastNS, r.s.steps.lastNS)
	r.s.open.InProgress = true
	return r.s.open, true
}

// unsettled calls fn with the thread's time that is not settled yet, up to the last sample. The state and the stack of
// this time are preliminary: they can still change.
func (r *thread) unsettled(fn func(*gvl.Interval)) {
	i := &r.s.pending
	i.Thread, i.Ractor, i.Slot = r.id, r.ractor, r.slot
	one := func(g segment, of look) {
		if g.state == openState {
			g.state, g.detail = gvl.Unknown, notAsked
		}
		i.State, i.Detail, i.Stack, i.Serving = g.state, g.detail, g.stackOr(of), servingOr(g.work, of.serving)
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
	one(r.goesOn(r.s.steps.lastNS), r.look)
}

func (r *thread) goesOn(atNS int64) segment {
	return segment{r.fromNS, atNS, r.stepNS, r.now(), r.known, r.detail, 0, r.work}
}

// servingOr returns the request that a thread worked for. If a change has reported a request (work), it returns work.
// Otherwise it returns the request that was read with the stack.
func servingOr(work sampler.WorkID, of sampler.Serving) sampler.Serving {
	if work != 0 && of.Work != work {
		return sampler.Serving{Work: work}
	}
	return of
}

// stackOr returns the stack that a change has reported for the segment. If there is none, it returns the stack in of, a
// reading of the stack.
func (g *segment) stackOr(of look) sampler.StackID {
	if g.stack != 0 {
		return g.stack
	}
	return of.stack
}

// cut ends the segment in progress at atNS, and begins the next one. The state stays the same.
func (r *thread) cut(atNS int64) {
	if atNS <= r.fromNS {
		return
	}
	if len(r.segments) >= maxSegments && !r.by.room() {
		r.release()
	}
	r.segments = append(r.segments, r.goesOn(atNS))
	r.s.kept++
	r.fromNS = atNS
}

// tell sets the state of the present period, if this state was not known until now. It is called when the state becomes
// known, or when it is certain that the state stays unknown.
func (r *thread) tell(state gvl.State) {
	if !r.open {
		return
	}
	r.state, r.open = state, false
	r.tellSegments(state, &r.detail)
}

// tellSegments gives all open segments their state.
func (r *thread) tellSegments(state gvl.State, d *gvl.Detail) {
	r.unseen = false
	for i := range r.untold {
		u := &r.untold[i]
		if u.state == openState {
			u.state, u.detail = state, *d
		}
		r.handOut(&u.segment, u.look, u.fromNS, u.toNS)
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

// giveUp handles the thread's time whose state is not known yet. It sets this state to Unknown, so that the time can be
// passed on.
func (r *thread) giveUp() {
	r.tellSegments(gvl.Unknown, &notAsked)
	if r.open {
		r.state, r.detail, r.open = gvl.Unknown, notAsked, false
	}
}

// settle passes the part of a segment between fromNS and toNS to the consumers. If the state of this part, or of an
// earlier part, is not known yet, settle holds the part back.
func (r *thread) settle(g *segment, of look, fromNS, toNS int64) {
	if toNS <= fromNS {
		return
	}
	if g.state == openState || len(r.untold) > 0 {
		u := untold{*g, of}
		u.fromNS, u.toNS = fromNS, toNS
		r.hold(&u)
		return
	}
	r.handOut(g, of, fromNS, toNS)
}

func (r *thread) handOut(g *segment, of look, fromNS, toNS int64) {
	i := &r.s.out
	i.Thread, i.Ractor, i.Slot = r.id, r.ractor, r.slot
	i.State, i.Detail, i.Stack, i.Serving = g.state, g.detail, g.stackOr(of), servingOr(g.work, of.serving)
	i.FromNS, i.ToNS, i.ResolutionNS = fromNS, toNS, g.stepNS
	for _, c := range r.s.to {
		c.Interval(i)
	}
}

// hold keeps back a period whose state is not known yet. It also keeps back the periods after it, because consumers get
// periods in order.
func (r *thread) hold(u *untold) {
	n := len(r.untold)
	if n > 0 {
		last := &r.untold[n-1]
		full := n >= maxUntold
		alike := last.look == u.look && last.stackOr(last.look) == u.stackOr(u.look) && last.work == u.work
		if open := last.state == openState && u.state == openState; open && (alike || full) {
			last.toNS = u.toNS
			return
		}
		if n >= maxUntoldMixed {
			// Too many periods are held back. Stop waiting for their states: set them to Unknown, and pass the periods
			// on.
			r.giveUp()
			if u.state == openState {
				u.state, u.detail = gvl.Unknown, notAsked
			}
			r.handOut(&u.segment, u.look, u.fromNS, u.toNS)
			return
		}
	}
	r.untold = append(r.untold, *u)
}

func (r *thread) notSampled() {
	st := &r.s.step
	r.settle(&segment{state: gvl.Unknown, detail: gvl.Detail{FD: -1, Reason: gvl.ReasonNotSampled}}, look{}, st.fromNS, st.toNS)
}

// end passes on all time of the thread that is held back, up to atNS. cut is true if the thread's last state may have
// continued after atNS.
func (r *thread) end(atNS int64, cut bool) {
	r.cut(atNS)
	r.tell(r.state)
	if r.unseen || len(r.untold) > 0 {
		r.giveUp()
	}
	r.release()
	if r.state == gvl.Waiting {
		byNS := r.s.steps.lastNS
		if cut {
			byNS = atNS
		}
		r.waited(atNS, byNS, cut)
	}
}
