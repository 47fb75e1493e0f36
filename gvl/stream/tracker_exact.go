package stream

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxExactSegments limits how many changes of one thread are remembered between two readings of its stack, if all
	// changes are known. maxKept limits the changes of all threads together (20 MB). If there are more, the limit for
	// each thread falls to maxSegments.
	maxExactSegments, maxKept = 1 << 13, 1 << 17
	// maxAgainst and againstNS decide when samples are right and a thread's changes are wrong. At least maxAgainst
	// consecutive samples must contradict the changes, over at least againstNS.
	//
	// A single sample can contradict correct changes, because it is read some µs before or after its time. Several
	// samples can do so if a thread loses its CPU in the middle of a change. It has then changed the scheduler's data,
	// but has not released the mutex yet, and the change is recorded only at the release. If the process's CPU time is
	// limited, this takes a tenth of a second and more.
	maxAgainst, againstNS = 3, 1e9
	// yieldNS is the longest time from the end of a thread's time slice until this thread enters the queue for the GVL,
	// in ns.
	yieldNS = 1e6
)

// exact tracks a thread of the main ractor by the changes of this ractor's GVL. Changes do not show everything. Samples
// decide what the thread does while it holds the GVL, and why it has released it.
type exact struct {
	*thread
	main *mainGVL
	// gvl says whether the thread holds the GVL, wants it, or does neither, by its last change. It is valid only if
	// known is true.
	gvl sampler.GVLState
	// begun is set if the thread first appeared in a change, and not in a sample. seen is set if a sample has shown the
	// thread since it last released the GVL.
	begun, seen bool
	// told is true if, since the thread's last change of the GVL, the kernel has reported what the thread does.
	told bool
	// against counts the latest consecutive samples that contradict gvl, up to maxAgainst. againstNS is the time of the
	// first of these samples.
	against   uint8
	againstNS int64
	// releasedFor is the last known state in which the thread was without the GVL. It is Unknown if no such state is
	// known.
	releasedFor    gvl.State
	releasedDetail gvl.Detail
	// endedNS is the time at which the thread ended, if a change has reported it. Otherwise it is zero.
	endedNS int64
	// heldNS is when the thread last got the GVL. letGoNS is when it last released the GVL.
	heldNS, letGoNS int64
	// waiting is the thread's wait for the GVL. waitStack is the stack at the end of this wait.
	waiting   gvlWait
	waitStack sampler.StackID
}

func (r *thread) byChanges() *exact {
	if r.changes == nil {
		r.changes = &exact{thread: r, main: &r.s.main}
	}
	return r.changes
}

func (e *exact) room() bool {
	return e.fresh || e.known && len(e.segments) < maxExactSegments && e.s.kept < maxKept
}

func (e *exact) leave() {
	e.main.forget(e)
	e.waiting.exact, e.told, e.work = false, false, 0
}

func (e *exact) wait(w *gvl.Wait) {
	if e.waitStack != 0 {
		w.Stack, w.Before.Stack = e.waitStack, e.waitStack
	}
	if e.waiting.exact {
		e.main.fill(w, &e.waiting)
	}
}

// sample adds the sample at the end of a step. All changes in this step were applied before the call.
func (e *exact) sample(ts *gvl.ThreadState, t *sampler.Thread) {
	e.endedNS = 0
	if e.fresh && !e.begun {
		e.beginUnchanged(ts, t)
	} else {
		e.compare(ts)
	}
	if e.main.holder == e && ts.Stopped() {
		e.s.stopped = true
	}
	if !e.fresh && e.s.readsStack(t) {
		e.read(lookAt(t), e.s.step.toNS)
	}
	e.fresh = false
}

// read adds a reading of the stack. It is remembered as the last reading for the thread's present place: holding the
// GVL, waiting for it, or neither.
func (e *exact) read(now look, atNS int64) {
	e.cut(atNS)
	if p := &e.looks[placeOf(e.stackState)]; p.atNS == 0 && e.stack != 0 && len(e.segments) > 0 {
		*p = pastLook{e.look, e.segments[0].fromNS} // the last reading from the time when changes were not known
	}
	e.thread.read(now, atNS)
	if now.stack != 0 {
		e.looks[placeOf(e.stackState)] = pastLook{now, atNS}
	}
}

// beginUnchanged begins to follow a new thread that no change has reported. Its first sample shows its state.
func (e *exact) beginUnchanged(ts *gvl.ThreadState, t *sampler.Thread) {
	now := *ts
	if now.State.Held() && e.main.heldByOther(e) {
		now.State, now.Detail = gvl.Unknown, notAsked
	}
	at, is := e.s.step.midNS, placeOf(now.State)
	if is != gvl.PlaceReleased {
		at = e.s.step.toNS // a change would have shown an earlier time
	}
	e.begin(&now, t, at)
	e.arrive(is, at, false)
}

// compare compares a sample of a thread with the state that changes show at this time. If they disagree, it may correct
// the thread's state.
func (e *exact) compare(ts *gvl.ThreadState) {
	step := &e.s.step
	own, is := placeOf(e.state), placeOf(ts.State)
	switch {
	// the thread is not in the queue for the GVL yet
	case own == is, own == gvl.PlaceReleased && ts.State == gvl.Waiting && ts.Detail.Wait == gvl.WaitYield:
		e.against = 0
	case e.known:
		if e.against == 0 {
			e.againstNS = step.toNS
		}
		e.against = min(e.against+1, maxAgainst)
		if e.against == maxAgainst && step.toNS-e.againstNS >= againstNS {
			e.known, e.waiting.exact = false, false
		}
	}
	switch {
	case own == gvl.PlaceReleased && is == gvl.PlaceReleased:
		e.seeReleased(ts)
	case own == gvl.PlaceHeld && is == gvl.PlaceHeld:
		if ts.State == e.state {
			e.detail = ts.Detail
		}
	case e.known:
	case own == is:
		e.advance(ts)
	case is == gvl.PlaceHeld && e.main.heldByOther(e):
	default:
		e.turnTo(ts, own, is)
	}
}

// turnTo sets a thread's state to the state in the sample at the step's end. It is for a thread whose last change is
// not known, and that changed its place: holding the GVL, waiting for it, or neither.
func (e *exact) turnTo(ts *gvl.ThreadState, was, is gvl.Place) {
	at := e.s.step.toNS
	e.depart(was, at)
	if h := e.main.holder; is == gvl.PlaceHeld && h != nil {
		h.enter(sampler.GVLReleased, at, false, false)
		h.known, h.stepNS = false, e.s.step.lengthNS()
	}
	e.change(ts.State, at, at)
	e.run(ts, at)
	e.told = false
	e.arrive(is, at, false)
	if e == e.main.shown.holder {
		e.main.showHolder(&e.main.lane().now)
	}
}

// seeReleased finds out from a sample why a thread has released the GVL.
func (e *exact) seeReleased(ts *gvl.ThreadState) {
	if ts.State == gvl.IO {
		e.s.notes.notePeer(&ts.Detail, ts.AtNS)
	}
	if e.refutes(ts) {
		return
	}
	if e.unseen && !e.open {
		if ts.State.Released() {
			e.tellSegments(ts.State, &ts.Detail)
		} else if e.s.step.fromNS-e.unseenNS > e.s.steps.reach.BackNS {
			e.giveUp()
		}
	}
	if !e.known || e.seen {
		e.advance(ts)
		return
	}
	// This is the first sample of the thread since it released the GVL. So the state in this sample counts for the
	// whole time since the release.
	e.seen, e.sinceNS = true, max(e.runNS, ts.SinceNS)
	if e.open && !ts.Open() {
		e.detail = ts.Detail
		e.tell(ts.State)
	}
	e.state, e.detail, e.open = ts.State, ts.Detail, ts.Open()
}

func (e *exact) goneNS() int64 {
	step := &e.s.step
	if e.endedNS != 0 {
		return e.endedNS
	}
	was := placeOf(e.state)
	if was == gvl.PlaceReleased {
		return max(step.midNS, e.fromNS, e.runNS)
	}
	l := e.main.lane()
	e.s.settleLock(l, step.toNS)
	switch {
	case was == gvl.PlaceWaiting:
		l.now.Waiters--
	case e.main.holder == e:
		l.vacate()
	}
	return step.toNS
}

func (e *exact) beginAt(at int64) {
	e.begun = true
	e.fromNS, e.stateNS, e.waitNS, e.before = at, at, at, waitBefore{}
	e.goOn(gvl.Unknown, &notAsked, at, 0)
}

// waitedWith sets the stack of a wait that has ended. The thread has run no Ruby code since it released the GVL. So all
// its segments since the release get this stack.
func (e *exact) waitedWith(stack sampler.StackID, at int64) {
	e.cut(at)
	for i := len(e.segments) - 1; i >= 0 && placeOf(e.segments[i].state) != gvl.PlaceHeld; i-- {
		e.segments[i].stack = stack
	}
	e.waitStack = stack
}

// enter applies a change of the GVL to a thread. sure is set if the thread was certainly in another state before. seen
// is set if the thread holds the GVL from now until the sample at the end of the step. In this case the sample shows
// what the thread does.
func (e *exact) enter(to sampler.GVLState, at int64, sure, seen bool) {
	r := e.thread
	was, is := placeOf(r.state), placeTo(to)
	if was == is {
		e.stays(to, at)
		return
	}
	yields := is == gvl.PlaceWaiting && e.yields(at)
	if yields {
		e.yield(at)
	} else {
		e.depart(was, at)
	}
	switch to {
	case sampler.GVLHeld:
		if r.s.unchosen && was == gvl.PlaceWaiting {
			e.waiting.chosenNS = e.main.freedNS // when the last holder freed the GVL
		}
		e.main.oust(e, at)
	case sampler.GVLChosen:
		e.waiting.chosenNS = at
	}
	e.main.choose(e, to, at)
	state, d := gvl.Running, gvl.Detail{FD: -1}
	switch is {
	case gvl.PlaceHeld:
		if seen {
			state, d = e.main.shownState()
		}
	case gvl.PlaceWaiting:
		state, d.Wait, d.After = gvl.Waiting, waitKind(to), r.state
	case gvl.PlaceReleased:
		if state, d = e.releasedFor, e.releasedDetail; state == gvl.Unknown && d.Reason == "" {
			d = notAsked
		}
	}
	r.change(state, at, at)
	r.span, e.waitStack = gvl.WaitSpan{}, 0
	if yields {
		d.After = gvl.Running
		r.before.state, r.before.sinceNS, r.before.atNS = gvl.Running, e.heldNS, e.letGoNS
	}
	r.goOn(state, &d, at, 0)
	e.gvl, r.known, e.seen, e.told, e.against = to, true, false, false, 0
	e.arrive(is, at, sure)
}

func placeTo(g sampler.GVLState) gvl.Place {
	switch g {
	case sampler.GVLHeld:
		return gvl.PlaceHeld
	case sampler.GVLQueued, sampler.GVLChosen:
		return gvl.PlaceWaiting
	}
	return gvl.PlaceReleased
}

// stays applies a change that leaves the thread in its place: it still holds the GVL, wants it, or does neither. For
// example, a waiting thread is chosen as the next holder.
func (e *exact) stays(to sampler.GVLState, at int64) {
	switch to {
	case sampler.GVLHeld:
		e.main.oust(e, at)
	case sampler.GVLChosen:
		if e.waiting.chosenNS == 0 {
			e.waiting.chosenNS = at
		}
	}
	e.main.choose(e, to, at)
	if k := waitKind(to); e.state == gvl.Waiting && e.kind != k {
		e.cut(at)
		e.kind, e.detail.Wait = k, k
		e.runNS, e.sinceNS, e.stepNS = at, at, 0
	}
	e.gvl, e.known, e.against = to, true, 0
}

// yields reports whether a thread that enters the queue had released the GVL only because its time slice ended. If a
// sample saw the thread without the GVL, this was not the reason.
func (e *exact) yields(at int64) bool {
	return e.known && e.gvl == sampler.GVLReleased && !e.seen && e.letGoNS == e.runNS && at-e.runNS <= yieldNS && e.letGoNS-e.heldNS >= gvl.TimeSliceNS/2
}

// yield is called when a thread enters the queue after its time slice (yields). It ends the short time in which the
// thread did not hold the GVL and was not in the queue.
func (e *exact) yield(at int64) {
	d, state, detail := gvl.Detail{FD: -1}, e.releasedFor, e.releasedDetail
	if e.open && !e.unseen {
		e.detail = d
		e.tell(gvl.Native) // a sample fell into this short time
	}
	e.state, e.detail, e.open = gvl.Native, d, false
	e.depart(gvl.PlaceReleased, at)
	e.releasedFor, e.releasedDetail = state, detail
}

// depart ends the thread's time in a place: the time in which it held the GVL, wanted it, or did neither.
func (e *exact) depart(was gvl.Place, at int64) {
	r := e.thread
	l := e.main.lane()
	r.cut(at)
	switch was {
	case gvl.PlaceHeld:
		r.s.settleLock(l, at)
		e.letGoNS = at
		e.main.letGo(e, at)
	case gvl.PlaceWaiting:
		r.s.settleLock(l, at)
		l.now.Waiters--
	case gvl.PlaceReleased:
		switch {
		case r.open && e.releasedFor != gvl.Unknown:
			r.detail = e.releasedDetail
			r.tell(e.releasedFor)
		case r.open:
			if r.open = false; !r.unseen && at > r.runNS {
				r.unseen, r.unseenNS = true, r.runNS
			}
		case r.state != gvl.Unknown || e.releasedFor == gvl.Unknown:
			e.releasedFor, e.releasedDetail = r.state, r.detail
		}
	}
}

// arrive begins the thread's time in a new place: it now holds the GVL, wants it, or does neither.
func (e *exact) arrive(is gvl.Place, at int64, sure bool) {
	r := e.thread
	l := e.main.lane()
	switch is {
	case gvl.PlaceHeld:
		r.s.settleLock(l, at)
		e.heldNS = at
		e.main.hold(e)
		of := r.look
		if p := &r.looks[gvl.PlaceHeld]; p.atNS != 0 && at-p.atNS <= lookNS && p.serving.Work == of.serving.Work {
			of = p.look
		}
		l.now.Stack, l.now.Serving = of.stack, servingOr(r.work, of.serving)
	case gvl.PlaceWaiting:
		r.s.settleLock(l, at)
		l.now.Waiters++
		e.main.beginWait(&e.waiting, e, at, sure)
		if r.kind == gvl.WaitHandover {
			e.waiting.chosenNS = at
		}
	}
}
