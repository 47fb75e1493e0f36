package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestLockCosts: the cost of a lock is the time in which threads waited for it, added up over all threads. The stack of
// a LockCost comes from the longest wait whose stack can belong to a wait for this lock (the function fits).
func TestLockCosts(t *testing.T) {
	var l LockHolds
	const older = 99
	fits := func(stack sampler.StackID, kind string) bool { return stack != older && kind == "Mutex" }
	wait := func(slot int, object uint64, stack sampler.StackID, fromMS, toMS int64) {
		l.Interval(&gvl.Interval{Thread: sampler.ThreadID(slot + 1), Slot: slot, State: gvl.Lock, Stack: stack,
			Detail: gvl.Detail{Kind: "Mutex", Object: object}, FromNS: fromMS * 1e6, ToNS: toMS * 1e6})
	}
	wait(0, 0x10, 7, 0, 10)
	wait(1, 0x10, 8, 5, 20)
	wait(1, 0x10, 8, 20, 40) // the same wait goes on
	wait(0, 0x20, 9, 10, 13)
	wait(0, 0x10, 7, 100, 200)
	wait(2, 0x10, older, 10, 25) // the longest wait at this time, but its stack is from before the wait
	l.Interval(&gvl.Interval{Thread: 1, State: gvl.Waiting, Stack: 7, FromNS: 10e6, ToNS: 90e6})
	if n := len(l.waits.ring); n != 5 {
		t.Errorf("%d waits", n)
	}
	for _, x := range []struct {
		from, to, object, want int64
		stack                  sampler.StackID
	}{{0, 50, 0x10, 60, 8}, {0, 50, 0x20, 3, 9}, {0, 500, 0x10, 160, 7}, {30, 110, 0x10, 20, 8}, {50, 90, 0x10, 0, 0}} {
		got := l.Costs(x.from*1e6, x.to*1e6, fits)[uint64(x.object)]
		if got.WaitedNS != x.want*1e6 || got.Stack != x.stack {
			t.Errorf("%d to %d ms: lock %#x cost %d ns by stack %d, want %d ms by %d",
				x.from, x.to, x.object, got.WaitedNS, got.Stack, x.want, x.stack)
		}
	}
	for i := range int64(2 * maxLockWaits) {
		wait(0, 0x30, 7, 1000+2*i, 1001+2*i)
	}
	if n := len(l.waits.ring); n != maxLockWaits {
		t.Errorf("%d waits are remembered", n)
	}
}
