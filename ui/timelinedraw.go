package ui

import (
	"fmt"

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
		v.highlight(a.Sub(0, 0, g.cellsX-1, 1), t, focused)
		if g.sharesW > 0 {
			v.highlight(a.Sub(a.W-g.sharesW, 0, g.sharesW, 1), t, focused)
		}
		a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
	}
	cells := a.Sub(g.cellsX, 0, g.cellsW, 1)
	for x := range cells.W {
		i := cellAt(x, len(w.cells), cells.W)
		if i < 0 {
			continue
		}
		c := &w.cells[i]
		if c.Listed() == 0 {
			continue
		}
		r, st := t.stateCell(c, ascii)
		if v.lit != nil {
			r, st = t.litCell(v.lit.cell(w.key, i), ascii)
		}
		cells.Rune(x, 0, r, st)
	}
	v.drawShares(a.Sub(a.W-g.sharesW, 0, g.sharesW, 1), w, t)
}

// highlight marks a selected row: by its ground and, without colours, by bold.
func (v *timelineView) highlight(a canvas.Area, t *Theme, focused bool) {
	a.Restyle(func(s canvas.Style) canvas.Style {
		s.BG = t.Selection
		if s.FG.IsSet() {
			s.FG = toward(s.FG, t.Text, t.Selection)
		}
		if focused {
			s.Attr |= canvas.Bold
		}
		return s
	})
}

// drawNow writes what a thread does: the state's word in its colour, the rest plain.
func (v *timelineView) drawNow(a canvas.Area, w *row, t *Theme, st canvas.Style) {
	if w.isGroup {
		v.drawGroupNow(a, w, t, st)
		return
	}
	text := canvas.Cut(w.now, a.W)
	a.Put(0, 0, text, st)
	word := w.state.String()
	if len(text) >= len(word) && text[:len(word)] == word {
		ws := canvas.Style{FG: t.readable(t.States[w.state])}
		if w.state == gvl.Waiting || w.state.Held() || w.state == gvl.Lock {
			ws.Attr = canvas.Bold
		}
		a.Put(0, 0, word, ws)
	}
}

// drawGroupNow counts the members' states, in words where they fit and in letters where not.
func (v *timelineView) drawGroupNow(a canvas.Area, w *row, t *Theme, st canvas.Style) {
	if canvas.Width(w.now) > a.W {
		var counts [gvl.NumStates]int
		for _, m := range w.members {
			if th := &v.threads[m]; th.seen {
				counts[th.state.State]++
			}
		}
		x := 0
		for _, s := range urgency {
			if counts[s] > 0 {
				x = a.Put(x, 0, fmt.Sprintf("%d%c ", counts[s], s.Letter()), canvas.Style{FG: t.readable(t.States[s]), Attr: canvas.Bold})
			}
		}
		return
	}
	x := 0
	rest := w.now
	for _, s := range urgency {
		n, word := 0, s.String()
		for _, m := range w.members {
			if th := &v.threads[m]; th.seen && th.state.State == s {
				n++
			}
		}
		if n == 0 {
			continue
		}
		if x > 0 {
			x = a.Put(x, 0, " · ", st)
		}
		x = a.Put(x, 0, fmt.Sprintf("%d ", n), st)
		x = a.Put(x, 0, word, canvas.Style{FG: t.readable(t.States[s])})
	}
	if x == 0 {
		a.Put(0, 0, rest, st)
	}
}
