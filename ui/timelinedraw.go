package ui

import (
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// draw draws the rows and, under them, the GVL lanes.
func (v *timelineView) draw(a canvas.Area, lanes canvas.Area, t *style.Theme, g *regions, focused, ascii bool) {
	for y := range v.visible {
		v.drawRow(a.Row(y), &v.visible[y], t, g, focused, ascii)
	}
	for y := range min(len(v.lanes), lanes.H) {
		v.drawLane(lanes.Row(y), &v.lanes[y], t, g)
	}
}

func (v *timelineView) drawRow(a canvas.Area, w *row, t *style.Theme, g *regions, focused, ascii bool) {
	selected := w.key == v.selected
	name, now := t.Plain(), t.Dimmed()
	if w.isGroup {
		name = t.Bold()
	}
	x := 1
	if w.inGroup {
		x = 3
	}
	switch {
	case w.isGroup && w.open:
		a.Put(x, 0, "▾", t.Dimmed())
	case w.isGroup:
		a.Put(x, 0, "▸", t.Dimmed())
	case w.ident > 0:
		st := canvas.Style{FG: t.Readable(t.Owner(w.ident)), Attr: canvas.Bold}
		if w.holds {
			st.Attr |= canvas.Reverse
		}
		a.Rune(x, 0, identRune(w.ident), st)
	}
	a.Put(x+2, 0, canvas.Cut(w.name, g.nameW-x-2), name)
	v.drawNow(a.Sub(g.nameW+1, 0, g.nowW, 1), w, t, now)
	if selected {
		t.Highlight(a.Sub(0, 0, g.cellsX-1, 1), focused)
		if g.sharesW > 0 {
			t.Highlight(a.Sub(a.W-g.sharesW, 0, g.sharesW, 1), focused)
		}
		a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
	}
	cells, beside := a.Sub(g.cellsX, 0, g.cellsW, 1), style.NewShades()
	for x := range cells.W {
		i := cellAt(x, len(w.cells), cells.W)
		if i < 0 {
			continue
		}
		c := &w.cells[i]
		if c.Listed() == 0 {
			continue
		}
		beside.GoTo(i, v.fromNS, (v.toNS-v.fromNS)/int64(len(w.cells)))
		draw := t.StateCell
		if v.frameCells != nil {
			c, draw = v.frameCells.cell(w.key, i), t.FrameCell
		}
		if w.listens && c.Dominant == gvl.IO && v.frameCells == nil && style.Share(c.NS[gvl.Waiting], c.Listed()) < style.LeastWait {
			draw = t.ListenCell
		}
		r, st := draw(c, ascii, beside)
		cells.Rune(x, 0, r, st)
	}
	v.drawShares(a.Sub(a.W-g.sharesW, 0, g.sharesW, 1), w, t)
}

// drawNow writes what a thread does: the state's word in its colour, the rest plain.
func (v *timelineView) drawNow(a canvas.Area, w *row, t *style.Theme, st canvas.Style) {
	if w.isGroup && !w.then {
		v.threads.states(w.members).draw(a, t, st)
		return
	}
	text := fit(w.now, a.W)
	a.Put(0, 0, text, st)
	word, _, _ := strings.Cut(text, " ")
	if word != "ended" {
		ws := canvas.Style{FG: t.Readable(t.States[w.state])}
		if w.listens && w.state == gvl.IO {
			ws = st
		}
		if w.state == gvl.Waiting || w.state.Held() || w.state == gvl.Lock {
			ws.Attr = canvas.Bold
		}
		a.Put(0, 0, word, ws)
	}
}
