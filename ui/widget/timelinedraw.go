package widget

import (
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// Draw draws the rows and, under them, the GVL lanes.
func (v *Timeline) Draw(a canvas.Area, lanes canvas.Area, t *style.Theme, g *scene.Regions, focused, ascii bool) {
	for y := range v.Visible {
		v.drawRow(a.Row(y), &v.Visible[y], t, g, focused, ascii)
	}
	for y := range min(len(v.Lanes), lanes.H) {
		v.drawLane(lanes.Row(y), &v.Lanes[y], t, g)
	}
}

func (v *Timeline) drawRow(a canvas.Area, w *scene.Row, t *style.Theme, g *scene.Regions, focused, ascii bool) {
	selected := w.Key == v.Selected
	name, now := t.Plain(), t.Dimmed()
	if w.IsGroup {
		name = t.Bold()
	}
	x := 1
	if w.InGroup {
		x = 3
	}
	switch {
	case w.IsGroup && w.Open:
		a.Put(x, 0, "▾", t.Dimmed())
	case w.IsGroup:
		a.Put(x, 0, "▸", t.Dimmed())
	case w.Ident > 0:
		st := canvas.Style{FG: t.Readable(t.Owner(w.Ident)), Attr: canvas.Bold}
		if w.Holds {
			st.Attr |= canvas.Reverse
		}
		a.Rune(x, 0, identRune(w.Ident), st)
	}
	a.Put(x+2, 0, canvas.Cut(w.Name, g.NameW-x-2), name)
	v.drawNow(a.Sub(g.NameW+1, 0, g.NowW, 1), w, t, now)
	if selected {
		t.Highlight(a.Sub(0, 0, g.CellsX-1, 1), focused)
		if g.SharesW > 0 {
			t.Highlight(a.Sub(a.W-g.SharesW, 0, g.SharesW, 1), focused)
		}
		a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
	}
	cells, beside := a.Sub(g.CellsX, 0, g.CellsW, 1), style.NewShades()
	for x := range cells.W {
		i := CellAt(x, len(w.Cells), cells.W)
		if i < 0 {
			continue
		}
		c := &w.Cells[i]
		if c.Listed() == 0 {
			continue
		}
		beside.GoTo(i, v.FromNS, (v.ToNS-v.FromNS)/int64(len(w.Cells)))
		draw := t.StateCell
		if v.FrameCells != nil {
			c, draw = v.FrameCells.cell(w.Key, i), t.FrameCell
		}
		if w.Listens && c.Dominant == gvl.IO && v.FrameCells == nil && style.Share(c.NS[gvl.Waiting], c.Listed()) < style.LeastWait {
			draw = t.ListenCell
		}
		r, st := draw(c, ascii, beside)
		cells.Rune(x, 0, r, st)
	}
	v.drawShares(a.Sub(a.W-g.SharesW, 0, g.SharesW, 1), w, t)
}

// drawNow writes what a thread does: the state's word in its colour, the rest plain.
func (v *Timeline) drawNow(a canvas.Area, w *scene.Row, t *style.Theme, st canvas.Style) {
	if w.IsGroup && !w.Then {
		v.Threads.States(w.Members).Draw(a, t, st)
		return
	}
	text := style.Fit(w.Now, a.W)
	a.Put(0, 0, text, st)
	word, _, _ := strings.Cut(text, " ")
	if word != "ended" {
		ws := canvas.Style{FG: t.Readable(t.States[w.State])}
		if w.Listens && w.State == gvl.IO {
			ws = st
		}
		if w.State == gvl.Waiting || w.State.Held() || w.State == gvl.Lock {
			ws.Attr = canvas.Bold
		}
		a.Put(0, 0, word, ws)
	}
}
