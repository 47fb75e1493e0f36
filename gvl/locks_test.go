package gvl

import (
	"reflect"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

func TestContended(t *testing.T) {
	at := func(id sampler.ThreadID, st State, since int64, d Detail) ThreadState {
		return ThreadState{Thread: id, State: st, Detail: d, SinceNS: 1000 - since, AtNS: 1000, Stack: sampler.StackID(id)}
	}
	got := Locks([]ThreadState{
		at(1, Parked, 9, Detail{Kind: "Queue", Object: 0x10}),
		at(2, Parked, 20, Detail{Kind: "Queue", Object: 0x10, DeadlineNS: 5000}),
		at(3, Parked, 8, Detail{Kind: "Queue", Object: 0x10}),
		at(4, Lock, 7, Detail{Kind: "Mutex", Object: 0x20}), // seen while the lock changed hands
		at(5, Lock, 30, Detail{Kind: "Mutex", Object: 0x20, Holder: 6}),
		at(6, Waiting, 1, Detail{}),
		at(7, Lock, 99, Detail{Kind: "Monitor", Object: 0x30, Holder: 6}),
		// Two joins of one thread, each with an object of its own.
		at(8, Parked, 1, Detail{Kind: "Thread", Object: 0x40, Joined: 1}),
		at(9, Parked, 2, Detail{Kind: "Thread", Object: 0x41, Joined: 1}),
		at(10, Sleeping, 2, Detail{}), at(11, IO, 2, Detail{FD: 3}),
		at(12, Lock, 2, Detail{}), // nothing known of it
	})
	want := []Contended{
		{Kind: "Mutex", Object: 0x20, Exclusive: true, Holder: 6, HolderState: Waiting, HolderStack: 6, Waiters: []sampler.ThreadID{5, 4}, LongestNS: 30},
		{Kind: "Monitor", Object: 0x30, Exclusive: true, Holder: 6, HolderState: Waiting, HolderStack: 6, Waiters: []sampler.ThreadID{7}, LongestNS: 99},
		{Kind: "Queue", Object: 0x10, Waiters: []sampler.ThreadID{2, 1, 3}, LongestNS: 20, Timed: 1},
		{Kind: "Thread", Holder: 1, HolderState: Parked, HolderStack: 1, Waiters: []sampler.ThreadID{9, 8}, LongestNS: 2, LongestBound: AtMost},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := Locks(nil); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
