package ui

import (
	"fmt"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// drawShares writes the shares of a row: holding the GVL, waiting for it, waiting for the outside, and what most of the
// rest is. Where all four are shown they sum to 100.
func (v *timelineView) drawShares(a canvas.Area, w *row, t *Theme) {
	if a.W == 0 {
		return
	}
	run := w.totals[gvl.Running] + w.totals[gvl.Stalled] + w.totals[gvl.GC]
	wait, io := w.totals[gvl.Waiting], w.totals[gvl.IO]
	var rest int64
	top := gvl.Unknown
	for s, ns := range w.totals {
		st := gvl.State(s)
		if st.Held() || st == gvl.Waiting || st == gvl.IO {
			continue
		}
		rest += ns
		if ns > w.totals[top] {
			top = st
		}
	}
	p := units.Percents(run, wait, io, rest)
	style := func(n int, s gvl.State) canvas.Style {
		if n == 0 {
			return t.faint()
		}
		return canvas.Style{FG: t.readable(t.States[s]), BG: canvas.Color(0)}
	}
	put := func(x, n int, s gvl.State, emphasis bool) int {
		st := style(n, s)
		if emphasis && n >= 10 {
			st.Attr = canvas.Bold
		}
		if w.key == v.selected {
			st = t.onSelection(st)
		}
		return a.Put(x, 0, fmt.Sprintf("%3d %%", n), st)
	}
	x := put(0, p[0], gvl.Running, false)
	x = put(x+1, p[1], gvl.Waiting, true)
	if a.W < 25 {
		return
	}
	x = put(x+1, p[2], gvl.IO, false)
	st := style(p[3], top)
	if w.key == v.selected {
		st = t.onSelection(st)
	}
	letter := ' '
	if p[3] > 0 {
		letter = top.Glyph()
	}
	a.Put(x+1, 0, fmt.Sprintf("%c %3d %%", letter, p[3]), st)
}
