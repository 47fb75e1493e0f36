package scene

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
)

// TestPoolWaitersDoNotRest: who waits for a pool by a finding is shown as waiting, as long as it waits in something,
// and no other is.
func TestPoolWaitersDoNotRest(t *testing.T) {
	parked := func(kind string) gvl.ThreadState {
		return gvl.ThreadState{State: gvl.Parked, Detail: gvl.Detail{Kind: kind}}
	}
	l := Threads{{ID: 1, Known: true, State: parked("Queue")}, {ID: 2, Known: true, State: parked("Queue")},
		{ID: 3, Known: true, State: parked("Thread")}, {ID: 4, Known: true, State: gvl.ThreadState{State: gvl.Running}}, {ID: 5}}
	l.WaitForPool([]findings.Finding{{ID: "gc_time", Threads: []sampler.ThreadID{2}}, {ID: "pool_wait", Threads: []sampler.ThreadID{1, 3, 4, 5}}})
	var shown []sampler.ThreadID
	for i := range l {
		if l[i].State.State == gvl.Lock && l[i].Active {
			shown = append(shown, l[i].ID)
		}
	}
	if !slices.Equal(shown, []sampler.ThreadID{1}) {
		t.Errorf("%d are shown as waiting", shown)
	}
}
