package style

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// TestBarsShowNothingUnderHalfAColumn: a bar is divided among states. Each state gets columns in proportion to its
// share, rounded. A state with less than half a column must not be drawn.
func TestBarsShowNothingUnderHalfAColumn(t *testing.T) {
	theme := darkTheme()
	var g canvas.Grid
	for waited, want := range map[int64]int{1: 0, 40: 0, 60: 1, 240: 2} { // ns of 1,000, in a bar of 10 columns
		var totals [gvl.NumStates]int64
		totals[gvl.Waiting], totals[gvl.IO] = waited, 1000-waited
		g.Reset(10, 1)
		theme.DrawStates(g.Area(), &totals, true)
		if got := strings.Count(g.Text(), "w"); got != want {
			t.Errorf("%d of 1,000: %d columns of waiting in %q", waited, got, g.Text())
		}
		c := timeline.Cell{Dominant: gvl.Running, Share: 1, SpanNS: 1000}
		c.NS[gvl.Running], c.NS[gvl.Waiting] = 1000-waited, waited
		if _, st := theme.StateCell(&c, false, nil); (st.BG == theme.States[gvl.Waiting]) != (waited >= 1000/16) {
			t.Errorf("%d of 1,000: a cell of the timeline has the ground %s", waited, st.BG.Hex())
		}
	}
}
