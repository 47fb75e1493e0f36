package ui

import (
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// draw draws the rows and, under them, the GVL lanes.
func (v *timelineView) draw(a canvas.Area, lanes canvas.Area, t *Theme, g *regions, focused, ascii bool) {
	for y := range v.visible {
		v.drawRow(a.Row(y), &v.visible[y], t, g, focused, ascii)
	}
	for y := range min(len(v.lanes), lanes.H) {
		v.drawLane(lanes.Row(y), &v.lanes[y], t, g)
	}
}

func (v *timelineView) drawRow(a canvas.Area, w *row, t *Theme, g *regions, focused, ascii bool) {
	selected := w.key == v.selected
	name, now := t.text(), t.dim()
	if w.isGroup {
		name = t.bold()
	}
	x := 1
	if w.inGroup {
		x = 3
	}
	switch {
	case w.isGroup && w.open:
		a.Put(x, 0, "▾", t.dim())
	case w.isGroup:
		a.Put(x, 0, "▸", t.dim())
	case w.ident > 0:
		st := canvas.Style{FG: t.readable(t.owner(w.ident)), Attr: canvas.Bold}
		if w.holds {
			st.Attr |= canvas.Reverse
		}
		a.Rune(x, 0, identRune(w.ident), st)
	}
	a.Put(x+2, 0, canvas.Cut(w.name, g.nameW-x-2), name)
	v.drawNow(a.Sub(g.nameW+1, 0, g.nowW, 1), w, t, now)
	if selected {
		t.highlight(a.Sub(0, 0, g.cellsX-1, 1), focused)
		if g.sharesW > 0 {
			t.highlight(a.Sub(a.W-g.sharesW, 0, g.sharesW, 1), focused)
		}
		a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
	}
	cells, beside := a.Sub(g.cellsX, 0, g.cellsW, 1), newShades()
	for x := range cells.W {
		i := cellAt(x, len(w.cells), cells.W)
		if i < 0 {
			continue
		}
		c := &w.cells[i]
		if c.Listed() == 0 {
			continue
		}
		beside.goTo(i, v.fromNS, (v.toNS-v.fromNS)/int64(len(w.cells)))
		draw := t.stateCell
		if v.frameCells != nil {
			c, draw = v.frameCells.cell(w.key, i), t.frameCell
		}
		if w.listens && c.Dominant == gvl.IO && v.frameCells == nil && share(c.NS[gvl.Waiting], c.Listed()) < leastWait {
			draw = t.listenCell
		}
		r, st := draw(c, ascii, beside)
		cells.Rune(x, 0, r, st)
	}
	v.drawShares(a.Sub(a.W-g.sharesW, 0, g.sharesW, 1), w, t)
}

// onSelection puts a style on the ground of a selected row.
func (t *Theme) onSelection(s canvas.Style) canvas.Style {
	s.BG = t.Selection
	if s.FG.IsSet() {
		s.FG = toward(s.FG, t.Text, t.Selection)
	}
	return s
}

// ground puts what is drawn on the ground of a selected row. Bars and other signs that are not letters keep their colour, by
// which they are told.
func (t *Theme) ground(a canvas.Area) {
	a.RestyleRunes(func(r rune, s canvas.Style) canvas.Style {
		if r >= '▀' && r <= '▟' || r == '■' {
			s.BG = t.Selection
			return s
		}
		return t.onSelection(s)
	})
}

// highlight marks a selected row: by its ground and, without colours, by bold.
func (t *Theme) highlight(a canvas.Area, focused bool) {
	t.ground(a)
	a.Restyle(func(s canvas.Style) canvas.Style {
		if focused {
			s.Attr |= canvas.Bold
		}
		return s
	})
}

// drawNow writes what a thread does: the state's word in its colour, the rest plain.
func (v *timelineView) drawNow(a canvas.Area, w *row, t *Theme, st canvas.Style) {
	if w.isGroup && !w.then {
		v.threads.states(w.members).draw(a, t, st)
		return
	}
	text := fit(w.now, a.W)
	a.Put(0, 0, text, st)
	word, _, _ := strings.Cut(text, " ")
	if word != "ended" {
		ws := canvas.Style{FG: t.readable(t.States[w.state])}
		if w.listens && w.state == gvl.IO {
			ws = st
		}
		if w.state == gvl.Waiting || w.state.Held() || w.state == gvl.Lock {
			ws.Attr = canvas.Bold
		}
		a.Put(0, 0, word, ws)
	}
}
