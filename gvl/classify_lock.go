package gvl

import "github.com/ddtop/ddtop/sampler"

// A lockWait is a wait for a lock, a Queue or a ConditionVariable. If the thread is woken but another thread takes the
// object first, the same wait continues.
type lockWait struct {
	object uint64
	stack  sampler.StackID
	// fromNS is when the wait began. It is zero if there is no wait. movedNS is ThreadState.MovedNS.
	fromNS, movedNS int64
	// turns is how often the thread had got a CPU at the last reading. It is zero if not known.
	turns int64
}

// forOthers reports whether a thread in this state waits for an action of other threads. If such a thread is woken, but
// does not get what it waits for, its wait continues.
func forOthers(s State, d *Detail) bool {
	return s == Lock || InQueue(s, d)
}

// InQueue reports whether a thread waits for a Queue or a ConditionVariable.
func InQueue(s State, d *Detail) bool {
	return (s == Parked || s == Sleeping) && (d.Kind == "Queue" || d.Kind == "SizedQueue" || d.Kind == "ConditionVariable")
}

// seen adds a sample of the thread, and sets SinceNS and MovedNS of ts. If the thread now holds or wants the GVL, but
// is still at the place in the code where it waited, its wait continues. The thread is then only entering or leaving
// the lock, or going back to sleep. turns is how often the thread got a CPU, or zero if not known.
func (l *lockWait) seen(t *sampler.Thread, ts *ThreadState, turns int64) {
	waits := forOthers(ts.State, &ts.Detail)
	elsewhere := t.Quality&(sampler.StackFresh|sampler.StackFailed) == sampler.StackFresh && t.Stack != l.stack
	switch {
	case waits && (l.fromNS == 0 || ts.Detail.Object != l.object || elsewhere):
		*l = lockWait{object: ts.Detail.Object, stack: t.Stack, fromNS: ts.SinceNS, turns: turns}
	case waits:
		switch {
		case ts.SinceNS > max(l.fromNS, l.movedNS): // the thread was seen waiting for the GVL
			l.movedNS, l.turns = ts.SinceNS, turns
		case turns != l.turns && l.turns != 0:
			l.movedNS, l.turns = ts.AtNS, turns
		case l.turns == 0:
			l.turns = turns
		}
		ts.SinceNS, ts.MovedNS = l.fromNS, l.movedNS
	case ts.State != Waiting && !ts.State.Held() || elsewhere:
		*l = lockWait{}
	}
}
