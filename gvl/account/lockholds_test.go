package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// lockTicks plays samples a millisecond apart. Each sample names the holder of lock 0x10, and the threads that wait for
// this lock.
type lockTicks struct {
	holds LockHolds
	nowNS int64
}

func (l *lockTicks) tick(n int, holder sampler.ThreadID, waiters ...sampler.ThreadID) {
	for range n {
		var states []gvl.ThreadState
		for _, id := range waiters {
			states = append(states, gvl.ThreadState{Thread: id, State: gvl.Lock, Detail: gvl.Detail{Kind: "Mutex", Object: 0x10, Holder: holder}})
		}
		l.nowNS += 1e6
		l.holds.Tick(&gvl.Tick{States: states, FromNS: l.nowNS - 1e6, ToNS: l.nowNS})
	}
}

func TestLockHolds(t *testing.T) {
	var l lockTicks
	l.tick(10, 1, 2, 3) // thread 1 held the lock before the first sample
	l.tick(100, 2, 3, 4)
	l.tick(1, 0, 3, 4) // the lock changes hands
	l.tick(5, 3, 4)
	l.tick(40, 0) // thread 4 has the lock, and no thread waits
	l.tick(5, 4, 1)
	u := l.holds.Of(0x10, 0, l.nowNS)
	if n := u.Held.Count(); u.Taken != 3 || n != 2 {
		t.Errorf("taken %d times, %d lengths", u.Taken, n)
	}
	// The short hold is not much longer than the interval between two samples, so its length is an upper bound.
	for q, want := range map[float64]gvl.Bounded{0.5: {NS: 6.5e6, Bound: gvl.AtMost}, 1: {NS: 101e6, Bound: gvl.Exactly}} {
		if got := u.Held.Quantile(q); got.NS < want.NS-1e6 || got.NS > want.NS+1.5e6 || got.Bound != want.Bound {
			t.Errorf("held %s at %g, want %s", got.Prose(), q, want.Prose())
		}
	}
	// In the first sample that does not show thread 3 as the holder, thread 4 does not wait. So thread 4 probably took
	// the lock then. But it may have released the lock and taken it again while no thread waited, so the length is an
	// upper bound.
	if got := u.HeldNow; u.Now != 4 || got.NS < 44e6 || got.NS > 46.5e6 || got.Bound != gvl.AtMost {
		t.Errorf("thread %d holds it for %s", u.Now, got.Prose())
	}
	if got := l.holds.Of(0x10, 0, 15e6); got.Now != 2 || got.Taken != 1 {
		t.Errorf("in the past: %+v", got)
	}
	if got := l.holds.Recent(0, l.nowNS); len(got) != 1 || got[0].Object != 0x10 || got[0].Kind != "Mutex" {
		t.Errorf("recent: %+v", got)
	}
	if got := l.holds.Of(0x20, 0, l.nowNS); got.Taken != 0 || got.Now != 0 {
		t.Errorf("of another lock: %+v", got)
	}
}

// TestOneThreadThatAlwaysWins: waiting threads are woken again and again, but the same thread keeps the lock or takes
// it again. Its hold may have ended at each wake-up. So the lower bound for the length of a hold is the time between
// two wake-ups. The whole time would be too long.
func TestOneThreadThatAlwaysWins(t *testing.T) {
	var l lockTicks
	l.tick(1, 2, 1, 3)
	for range 50 {
		l.tick(10, 1, 2, 3)
		l.tick(1, 1, 3) // thread 2 was woken, but came too late
	}
	u := l.holds.Of(0x10, 0, l.nowNS)
	if u.Taken != 1 || u.HeldNow != (gvl.Bounded{NS: 0, Bound: gvl.AtLeast}) || u.Now != 1 {
		t.Errorf("%+v", u)
	}
	l.tick(5, 1, 2, 3)
	if u = l.holds.Of(0x10, 0, l.nowNS); u.HeldNow.Bound != gvl.AtLeast || u.HeldNow.NS < 4e6 || u.HeldNow.NS > 6e6 {
		t.Errorf("5 ms after the last chance of another one: %+v", u)
	}
	l.tick(10, 3, 2)
	u = l.holds.Of(0x10, 0, l.nowNS)
	if u.Taken != 2 {
		t.Errorf("%+v", u)
	}
	for i, got := range u.Told(.5, .95, 1) {
		if got.Bound != gvl.AtLeast || got.NS < 9e6 || got.NS > 11e6 {
			t.Errorf("length %d is told as %s, and another one had a chance every 10 ms", i, got.Prose())
		}
	}
}

// TestShortHoldsAreAtMost: the length of a short hold is an upper bound, because its beginning and end are not known
// exactly. The possible error is the time between two samples, which is a large part of a short hold.
func TestShortHoldsAreAtMost(t *testing.T) {
	var l lockTicks
	for range 20 {
		l.tick(1, 1, 2, 3)
		l.tick(1, 2, 1, 3)
	}
	if u := l.holds.Of(0x10, 0, l.nowNS); u.Held.Quantile(.5).Bound != gvl.AtMost || u.Taken != 39 {
		t.Errorf("%+v", u)
	}
}

// TestHoldsAreBounded: the number of remembered holds is limited, and the oldest are dropped first. A lock for which no
// thread waits is forgotten.
func TestHoldsAreBounded(t *testing.T) {
	var l lockTicks
	for i := range maxHolds + 10 {
		l.tick(1, sampler.ThreadID(1+i%2), 3)
	}
	if len(l.holds.ring) != maxHolds || l.holds.FromNS() == 0 {
		t.Errorf("%d are kept, from %d on", len(l.holds.ring), l.holds.FromNS())
	}
	l.nowNS += forgetLockNS
	l.tick(2, 0)
	if len(l.holds.open) != 0 {
		t.Errorf("%d locks are open", len(l.holds.open))
	}
}

// TestHoldersThatAreReadInTurn: if there are many threads, the data of some may be old. Two waiting threads can then
// name different holders, although the lock has the same holder. This is not a new hold.
func TestHoldersThatAreReadInTurn(t *testing.T) {
	var l LockHolds
	now := int64(0)
	tick := func(n int, of ...sampler.ThreadID) {
		for range n {
			now += 10e6
			states := make([]gvl.ThreadState, manyThreads+1)
			for i, holder := range of {
				states[i] = gvl.ThreadState{Thread: sampler.ThreadID(100 + i), State: gvl.Lock, Detail: gvl.Detail{Object: 0x10, Holder: holder}}
			}
			l.Tick(&gvl.Tick{States: states, FromNS: now - 10e6, ToNS: now})
		}
	}
	tick(2, 1, 1)
	tick(1, 2, 1)
	tick(1, 2, 1)
	tick(1, 1, 0) // only one of the two waiting threads names a holder
	tick(1, 2, 2)
	if u := l.Of(0x10, 0, now); u.Taken != 0 {
		t.Errorf("taken %d times", u.Taken)
	}
	tick(10, 2, 2)
	if u := l.Of(0x10, 0, now); u.Taken != 1 || u.Now != 2 {
		t.Errorf("%+v", u)
	}
}

// TestHoldFromTheFirstSample: a thread has a lock in the first sample. The lower bound for the length of its hold is
// the time in which the thread certainly did not release the lock. If waiting threads are woken but do not get the
// lock, this time begins again.
func TestHoldFromTheFirstSample(t *testing.T) {
	var l lockTicks
	l.tick(50, 1, 2, 3)
	if got := l.holds.Of(0x10, 0, l.nowNS).HeldNow; got != (gvl.Bounded{NS: 49e6, Bound: gvl.AtLeast}) {
		t.Errorf("held %s", got.Prose())
	}
	l.tick(1, 1, 3) // thread 2 was woken
	l.tick(10, 1, 2, 3)
	if got := l.holds.Of(0x10, 0, l.nowNS).HeldNow; got.Bound != gvl.AtLeast || got.NS > 10e6 || got.NS < 8e6 {
		t.Errorf("held %s, and 10 ms ago it may have been another hold", got.Prose())
	}
}
