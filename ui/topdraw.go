package ui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

func (p *topPage) draw(a canvas.Area, m *scene) {
	t := &m.theme
	barW := a.W / 6
	if a.W < wideWidth {
		barW = 8
	}
	const numberW = 7
	x := 1
	for o, s := range topOrderNames {
		st := t.dim()
		if topOrder(o) == p.order {
			st = canvas.Style{FG: t.Accent, Attr: canvas.Bold}
			s += "▼"
		}
		a.Put(x, 0, canvas.PadLeft(s, numberW), st)
		m.onPress(a.Sub(x, 0, numberW, 1), func(m *Model, _, _ int) tea.Cmd { p.order = topOrder(o); m.refresh(); return nil })
		x += numberW + 1
	}
	nameX := x + barW + 4
	kindX := nameX
	for k, s := range topKindNames {
		st := t.dim()
		if topKind(k) == p.kind {
			st = canvas.Style{FG: t.Accent, Attr: canvas.Bold | canvas.Underline}
		}
		from := kindX
		kindX = a.Put(kindX, 0, s, st)
		m.onPress(a.Sub(from, 0, kindX-from, 1), func(m *Model, _, _ int) tea.Cmd { p.turnTo(m, topKind(k)); return nil })
		kindX += 2
	}
	rows := a.Sub(0, 1, a.W, a.H-1)
	p.drawn = rows.H
	if why := p.nothing(m); why != "" {
		rows.Put(3, rows.H/2, canvas.Cut(why, rows.W-4), t.dim())
		return
	}
	if i := p.at(); i >= 0 {
		p.top = max(min(p.top, i), i-rows.H+1)
	}
	p.top = max(0, min(p.top, len(p.sorted)-rows.H))
	for y := range min(rows.H, len(p.sorted)-p.top) {
		r := p.sorted[p.top+y]
		p.drawTop(rows.Row(y), r, barW, nameX, m)
		key := r.topKey
		m.onPress(rows.Row(y), func(*Model, int, int) tea.Cmd { p.selected = key; return nil })
	}
	right := ""
	if m.flame.metric == flamegraph.Allocations { // the rule above has no room for it on a narrow screen
		right = " " + uncertainty(p.alloc)
	}
	right += hiddenRows(p.top, len(p.sorted)-p.top-rows.H)
	a.PutRight(0, right, canvas.Style{FG: t.Warn, Attr: canvas.Bold})
}

func (p *topPage) drawTop(a canvas.Area, r *topRow, barW, nameX int, m *scene) {
	t := &m.theme
	total := p.total[0] + p.total[1]
	shares := [...]float64{share(r.weight(bySelf), total), share(r.weight(byTotal), total), share(r.blame, p.blame)}
	x := 1
	for o, s := range shares {
		st := t.text()
		switch {
		case s <= 0:
			st = t.faint()
		case topOrder(o) == p.order:
			st = t.bold()
		case topOrder(o) == byBlame:
			st = canvas.Style{FG: t.readable(t.States[gvl.Waiting])}
		}
		a.Put(x, 0, canvas.PadLeft(sharePoints(s), 7), st)
		x += 8
	}
	switch p.trend(r) {
	case +1:
		a.Put(x, 0, "↑", canvas.Style{FG: t.Crit, Attr: canvas.Bold})
	case -1:
		a.Put(x, 0, "↓", canvas.Style{FG: t.Good, Attr: canvas.Bold})
	}
	color := t.Flame[r.from]
	for i := range int(share(r.weight(p.order), p.sorted[0].weight(p.order))*float64(barW) + 0.5) {
		a.Rune(x+2+i, 0, '▇', canvas.Style{FG: color})
	}
	room := a.W - nameX - 1
	where := ""
	if r.file != "" && r.file != r.label {
		where = lineIn(r.file, r.line, r.uncertain)
	}
	name := canvas.CutLeft(r.label, room)
	if p.kind == topFunctions || p.kind == topLines {
		name = flamegraph.LabelFit(canvas.Clean(r.label), max(room*6/10, room-canvas.Width(where)-2))
	}
	at := a.Put(nameX, 0, name, t.text())
	if rest := a.W - at - 3; rest > 6 {
		a.Put(at+2, 0, canvas.CutLeft(where, rest), t.dim())
	}
	if r.topKey == p.selected {
		m.timeline.highlight(a, t, true)
		a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
	}
}

// sharePoints prints a share with one decimal: in a list by weight the order must be plain.
func sharePoints(s float64) string {
	switch {
	case s <= 0:
		return "–"
	case s < 0.0005:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", s*100)
}
