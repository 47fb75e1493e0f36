package widget

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// TestListenersLookAtRest: an idle thread of a server waits in state io for a client. Its cells in the timeline must be
// pale, with the letter of io. If the thread waited for the GVL during a cell, this cell is not pale.
func TestListenersLookAtRest(t *testing.T) {
	theme, err := style.ThemeByName("dark")
	if err != nil {
		t.Fatal(err)
	}
	cell := func(waits int64) timeline.Cell {
		c := timeline.Cell{Dominant: gvl.IO, Share: float64(100-waits) / 100, SpanNS: 100}
		c.NS[gvl.IO], c.NS[gvl.Waiting] = 100-waits, waits
		return c
	}
	ground := func(listens bool, waits int64) canvas.Color {
		v := Timeline{Selection: new(scene.Selection), ToNS: 100}
		w := scene.Row{Listens: listens, State: gvl.IO, Now: []string{"io"}, Cells: []timeline.Cell{cell(waits)}}
		g := scene.Regions{NameW: 8, NowW: 4, CellsX: 14, CellsW: 1}
		var grid canvas.Grid
		grid.Reset(20, 1)
		v.drawRow(grid.Area(), &w, &theme, &g, false, false)
		if r := grid.At(14, 0).Rune; r != gvl.IO.Glyph() {
			t.Errorf("the letter is %q", r)
		}
		return grid.At(14, 0).Style.BG
	}
	if got := ground(true, 0); got != theme.States[gvl.Parked] {
		t.Errorf("a listener has the ground %v", got)
	}
	if busy := ground(false, 0); busy == theme.States[gvl.Parked] || ground(true, 20) == theme.States[gvl.Parked] {
		t.Errorf("one that works or waits looks at rest")
	}
}
