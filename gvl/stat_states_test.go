package gvl

import "testing"

// TestStatStates: stat's JSON has a place for each state.
func TestStatStates(t *testing.T) {
	for s := range NumStates {
		var ns [NumStates]int64
		ns[s] = 1
		if StatesOf(ns) == (StatStates{}) {
			t.Errorf("StatStates has no %q", s)
		}
	}
}
