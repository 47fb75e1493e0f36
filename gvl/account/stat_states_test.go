package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/report"
)

// TestStatStates: the JSON of stat has a field for each state.
func TestStatStates(t *testing.T) {
	for s := range gvl.NumStates {
		var ns [gvl.NumStates]int64
		ns[s] = 1
		if report.StatesOf(ns) == (report.StatStates{}) {
			t.Errorf("StatStates has no %q", s)
		}
	}
}
