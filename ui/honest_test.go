package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/style"
)

// TestBarsShowNothingUnderHalfAColumn: a state has as many columns of a bar as its time is worth, and none under half of one.
func TestBarsShowNothingUnderHalfAColumn(t *testing.T) {
	theme := style.DarkTheme()
	var g canvas.Grid
	for waited, want := range map[int64]int{1: 0, 40: 0, 60: 1, 240: 2} { // of 1,000 in 10 columns
		var totals [gvl.NumStates]int64
		totals[gvl.Waiting], totals[gvl.IO] = waited, 1000-waited
		g.Reset(10, 1)
		theme.DrawStates(g.Area(), &totals, true)
		if got := strings.Count(g.Text(), "w"); got != want {
			t.Errorf("%d of 1,000: %d columns of waiting in %q", waited, got, g.Text())
		}
		c := gvl.Cell{Dominant: gvl.Running, Share: 1, SpanNS: 1000}
		c.NS[gvl.Running], c.NS[gvl.Waiting] = 1000-waited, waited
		if _, st := theme.StateCell(&c, false, nil); (st.BG == theme.States[gvl.Waiting]) != (waited >= 1000/16) {
			t.Errorf("%d of 1,000: a cell of the timeline has the ground %s", waited, st.BG.Hex())
		}
	}
}

// TestSharesAreOfTheLargestStates: a narrow terminal has the states that most time went to.
func TestSharesAreOfTheLargestStates(t *testing.T) {
	s := newScreen(t, 80, 24, demosource.Options{Length: 30 * time.Second}, Options{})
	v := &s.model.timeline
	var totals [gvl.NumStates]int64
	for i := range v.threads {
		for st, ns := range v.threads[i].totals {
			totals[shownAs(gvl.State(st))] += ns
		}
	}
	for _, shown := range v.shares.states {
		for _, other := range shareStates {
			listed := false
			for _, st := range v.shares.states {
				listed = listed || st == other
			}
			if !listed && !other.Idle() && float64(totals[other]) > 1.3*float64(totals[shown]) {
				t.Errorf("%v has a column and %v, with %d ns to its %d, has none", shown, other, totals[other], totals[shown])
			}
		}
	}
	s.sees("run", "wait") // and the legend, where nothing is selected
	s.sees("parked", "stalled")
	s.press("down")
	s.misses("stalled")
}
