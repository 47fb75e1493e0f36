package threads

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
)

// TestDetailSaysWhatTheStateDoesNot: the column with a thread's detail must not repeat the state or its duration,
// because these have columns of their own.
func TestDetailSaysWhatTheStateDoesNot(t *testing.T) {
	for _, c := range []struct {
		ts   gvl.ThreadState
		want string
	}{
		{gvl.ThreadState{State: gvl.Running}, ""},
		{gvl.ThreadState{State: gvl.Sleeping, AtNS: 98_700_000}, ""},
		{gvl.ThreadState{State: gvl.Waiting, AtNS: 98_700_000, Detail: gvl.Detail{After: gvl.GC}}, "after gc"},
		{gvl.ThreadState{State: gvl.Parked, Detail: gvl.Detail{Kind: "Thread"}}, "in Thread#join"},
		{gvl.ThreadState{State: gvl.Unknown, Detail: gvl.Detail{Reason: "torn"}}, "torn"},
	} {
		if got := beyondState(c.ts, nil); got != c.want {
			t.Errorf("%s: %q, want %q", c.ts.State, got, c.want)
		}
	}
}
