package account

import (
	"reflect"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

func TestContended(t *testing.T) {
	at := func(id sampler.ThreadID, st gvl.State, since int64, d gvl.Detail) gvl.ThreadState {
		return gvl.ThreadState{Thread: id, State: st, Detail: d, SinceNS: 1000 - since, AtNS: 1000, Stack: sampler.StackID(id)}
	}
	got := Locks([]gvl.ThreadState{
		at(1, gvl.Parked, 9, gvl.Detail{Kind: "Queue", Object: 0x10}),
		at(2, gvl.Parked, 20, gvl.Detail{Kind: "Queue", Object: 0x10, DeadlineNS: 5000}),
		at(3, gvl.Parked, 8, gvl.Detail{Kind: "Queue", Object: 0x10}),
		at(4, gvl.Lock, 7, gvl.Detail{Kind: "Mutex", Object: 0x20}), // seen while the lock changed hands
		at(5, gvl.Lock, 30, gvl.Detail{Kind: "Mutex", Object: 0x20, Holder: 6}),
		at(6, gvl.Waiting, 1, gvl.Detail{}),
		at(7, gvl.Lock, 99, gvl.Detail{Kind: "Monitor", Object: 0x30, Holder: 6}),
		// Two threads join the same thread. Each waits for an object of its own, but the list must have one entry: the
		// joined thread.
		at(8, gvl.Parked, 1, gvl.Detail{Kind: "Thread", Object: 0x40, Joined: 1}),
		at(9, gvl.Parked, 2, gvl.Detail{Kind: "Thread", Object: 0x41, Joined: 1}),
		at(10, gvl.Sleeping, 2, gvl.Detail{}), at(11, gvl.IO, 2, gvl.Detail{FD: 3}),
		at(12, gvl.Lock, 2, gvl.Detail{}), // ddtop does not know which lock this thread waits for
	})
	want := []Contended{
		{Kind: "Mutex", Object: 0x20, Exclusive: true, Holder: 6, HolderState: gvl.Waiting, HolderStack: 6, Waiters: []sampler.ThreadID{5, 4}, LongestNS: 30, SeenNS: 30},
		{Kind: "Monitor", Object: 0x30, Exclusive: true, Holder: 6, HolderState: gvl.Waiting, HolderStack: 6, Waiters: []sampler.ThreadID{7}, LongestNS: 99, SeenNS: 99},
		{Kind: "Queue", Object: 0x10, Waiters: []sampler.ThreadID{2, 1, 3}, LongestNS: 20, SeenNS: 20, Timed: 1},
		{Kind: "Thread", Holder: 1, HolderState: gvl.Parked, HolderStack: 1, Waiters: []sampler.ThreadID{9, 8}, LongestNS: 2, LongestBound: gvl.AtMost, SeenNS: 2},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := Locks(nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

// TestLocksTellWhatIsKnown: threads that join another thread come last in the list, however many there are. If the
// waiters of a lock have had a CPU while they waited, they may have had the lock. The list then shows how long they
// have certainly waited, not how long ddtop has seen them wait.
func TestLocksTellWhatIsKnown(t *testing.T) {
	joins := func(id sampler.ThreadID) gvl.ThreadState {
		return gvl.ThreadState{Thread: id, State: gvl.Parked, AtNS: 10 * gvltest.Sec, Detail: gvl.Detail{Kind: "Thread", Joined: 1}}
	}
	waits := func(id sampler.ThreadID, object uint64, movedNS int64) gvl.ThreadState {
		return gvl.ThreadState{Thread: id, State: gvl.Lock, AtNS: 10 * gvltest.Sec, MovedNS: movedNS, Detail: gvl.Detail{Kind: "Mutex", Object: object, Holder: 9}}
	}
	got := Locks([]gvl.ThreadState{
		joins(2), joins(3), joins(4), {Thread: 5, State: gvl.Parked, AtNS: 10 * gvltest.Sec, Detail: gvl.Detail{Kind: "Queue", Object: 7}},
		waits(6, 8, 9950*gvltest.MS), waits(7, 8, 9800*gvltest.MS), waits(8, 9, 10*gvltest.Sec),
	})
	var kinds []string
	for _, c := range got {
		kinds = append(kinds, c.Kind)
	}
	if !slices.Equal(kinds, []string{"Mutex", "Mutex", "Queue", "Thread"}) {
		t.Fatalf("in this order: %v", kinds)
	}
	if c := got[0]; c.Longest() != (gvl.Bounded{NS: 200 * gvltest.MS, Bound: gvl.AtLeast}) || c.Waiters[0] != 7 || c.SeenNS != 10*gvltest.Sec {
		t.Errorf("a busy lock: %+v", c)
	}
	if c := got[1]; c.LongestNS != 0 {
		t.Errorf("a waiter that has just moved: %+v", c)
	}
}
