package style

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// BarStates is the order of the states in a bar.
var BarStates = [...]gvl.State{gvl.Running, gvl.Stalled, gvl.GC, gvl.Waiting, gvl.Lock, gvl.Native, gvl.IO, gvl.Parked, gvl.Sleeping, gvl.Unknown}

// DrawStates draws a bar whose columns are shared out by the time in each state. A state with less than half a column has none.
func (t *Theme) DrawStates(a canvas.Area, totals *[gvl.NumStates]int64, ascii bool) {
	parts := make([]int64, len(BarStates))
	most, sum := 0, int64(0)
	for i, s := range BarStates {
		parts[i] = totals[s]
		sum += parts[i]
		if parts[i] > parts[most] {
			most = i
		}
	}
	for i := range parts {
		if i != most && Share(parts[i], sum)*float64(a.W) < 0.5 {
			parts[i] = 0
		}
	}
	widths := units.Divide(a.W, parts, units.Sum(parts), nil)
	x := 0
	for i, s := range BarStates {
		c := gvl.Cell{Dominant: s, Share: 1, SpanNS: 1}
		c.NS[s] = 1
		r, st := t.StateCell(&c, ascii, nil)
		for range widths[i] {
			a.Rune(x, 0, r, st)
			x++
		}
	}
}
