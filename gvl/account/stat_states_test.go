package account

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
)

// TestStatStates: stat's JSON has a place for each state.
func TestStatStates(t *testing.T) {
	for s := range gvl.NumStates {
		var ns [gvl.NumStates]int64
		ns[s] = 1
		if StatesOf(ns) == (StatStates{}) {
			t.Errorf("StatStates has no %q", s)
		}
	}
}
