package ui

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// TestSharesAreOfTheLargestStates: the screen shows the share of time in each state. If a narrow terminal has no room
// for all states, it must show the states with the most time.
func TestSharesAreOfTheLargestStates(t *testing.T) {
	s := newScreen(t, 80, 24, demosource.Options{Length: 30 * time.Second}, scene.Options{})
	v := &s.model.Timeline
	var totals [gvl.NumStates]int64
	for i := range v.Threads {
		for st, ns := range v.Threads[i].Totals {
			totals[widget.ShownAs(gvl.State(st))] += ns
		}
	}
	for _, shown := range v.Shares.States {
		for _, other := range widget.ShareStates {
			listed := false
			for _, st := range v.Shares.States {
				listed = listed || st == other
			}
			if !listed && !other.Idle() && float64(totals[other]) > 1.3*float64(totals[shown]) {
				t.Errorf("%v has a column and %v, with %d ns to its %d, has none", shown, other, totals[other], totals[shown])
			}
		}
	}
	s.sees("run", "wait") // the legend is shown, too, because nothing is selected
	s.sees("parked", "stalled")
	s.press("down")
	s.misses("stalled")
}
