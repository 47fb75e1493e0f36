package widget

import (
	"fmt"
	"path/filepath"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// panelColumn is one of the lists in the panel below the flamegraph.
type panelColumn struct {
	title string
	rows  []PanelRow
	// itself is the label of the selected function. In this function's row, the list shows the text in the field word
	// ("itself") instead of the label.
	itself, word string
	totals       bool // true if there is a second column, with the share of a function and all that it calls
	of           int64
}

// Draw draws as many of the panel's lists as fit. If the flamegraph is empty, it shows instead where in the code the
// threads are.
func (p *Panel) Draw(a canvas.Area, sc *scene.Scene) {
	switch {
	case a.H < 2:
		return
	case p.idle:
		p.now.Draw(a, sc, p.timeline.SelectedRow())
		return
	}
	list := func(a canvas.Area, rest string) { p.drawLists(a, sc, " hottest functions", rest, p.listColumns()) }
	switch {
	case p.of.Kind == flamegraph.FrameNode && p.of.Label != "":
		h := a.H
		if len(p.Hot) > 0 && h >= 2*LeastPanel {
			h /= 2
			list(a.Sub(0, h, a.W, a.H-h), " while it runs")
		}
		p.drawLists(a.Sub(0, 0, a.W, h), sc, " "+p.of.Label, p.figures(), p.frameColumns(p.Flame.Inverted))
	case p.of.Label != "":
		list(a, " of "+p.of.Label)
	default:
		list(a, "")
	}
}

// drawLists draws a line with the title. Below this line it draws as many lists as fit side by side.
func (p *Panel) drawLists(a canvas.Area, sc *scene.Scene, title, rest string, columns []panelColumn) {
	t := &sc.Theme
	a.Row(0).Fill('─', t.Rule())
	x := a.Put(2, 0, canvas.Cut(title, a.W/2), t.Bold())
	x = a.Put(x, 0, canvas.Cut(rest, a.W-x-4), t.Dimmed())
	a.Put(x, 0, " ", t.Rule())
	const columnW = 58
	n := max(1, min(a.W/columnW, len(columns)))
	if a.W >= 80 {
		n = max(n, min(2, len(columns)))
	}
	for i, c := range columns[:n] {
		from, to := a.W*i/n, a.W*(i+1)/n
		p.drawColumn(a.Sub(from, 1, to-from-1, a.H-1), sc, &c)
	}
}

// listColumns returns the lists of the heaviest functions, for a panel without a selected function.
func (p *Panel) listColumns() []panelColumn {
	out := []panelColumn{{title: "function", rows: p.Hot, totals: true, of: p.Total}}
	if len(p.Own) > 0 {
		out = append(out, panelColumn{title: "your code, with the C functions and libraries it calls", rows: p.Own, of: p.Total})
	}
	return out
}

// frameColumns returns the lists about the selected function: its callers, its callees, and the threads that run it.
func (p *Panel) frameColumns(inverted bool) []panelColumn {
	callees := panelColumn{title: "calls", rows: p.Callees, itself: p.of.Label, word: "itself", of: p.Total}
	callers := panelColumn{title: "called by", rows: p.Callers, of: p.Total}
	if inverted {
		callers.itself, callers.word = p.of.Label, "nothing: the stack begins here"
	}
	out := []panelColumn{callers, callees}
	if len(p.Threads) > 0 {
		out = append(out, panelColumn{title: "runs in", rows: p.Threads, of: p.Total})
	}
	return out
}

// figures returns a text with the figures of the selected function: the sums over all its places in the flamegraph. The
// line about the selected frame is about only one place, so its figures can be smaller.
func (p *Panel) figures() string {
	whole := p.Flame.Tree.Root.Total
	s := fmt.Sprintf(" · total %s, self %s", units.Percent(style.Share(p.Total, whole)), units.Percent(style.Share(p.Self, whole)))
	if p.places > 1 {
		s += fmt.Sprintf(" in all %d places", p.places)
	}
	of := flamegraph.Node{Total: p.Total, StateTotal: p.states}
	if mix := p.Flame.mostly(&of, leastOfFrame); mix != "" {
		s += " · " + mix
	}
	return s
}

const (
	panelShareW = 6
	panelBarW   = 12
	narrowPanel = 50 // width in columns below which bars are half as long
	leastPlaced = 30 // least width in columns to write the place beside the name
	moreW       = 6  // width of "▼40" with a space on either side
)

func (p *Panel) drawColumn(a canvas.Area, sc *scene.Scene, c *panelColumn) {
	t := &sc.Theme
	x, barW := 1, panelBarW
	if a.W < narrowPanel {
		barW /= 2
	}
	bar := x + panelShareW
	if c.totals {
		a.Put(x, 0, canvas.PadLeft("self", panelShareW-1), t.Dimmed())
		a.Put(bar, 0, canvas.PadLeft("total", panelShareW-1), t.Dimmed())
		bar += panelShareW
		if p.Flame.Metric == flamegraph.Wall {
			a.Put(bar, 0, "states", t.Dimmed())
		}
		a.Put(bar+barW+1, 0, c.title, t.Dimmed())
	} else {
		a.Put(x, 0, canvas.Cut(c.title, a.W-x-moreW), t.Dimmed())
	}
	name := bar + barW + 1
	rows := a.Sub(0, 1, a.W, a.H-1)
	n := min(rows.H, len(c.rows))
	for y := range n {
		r := &c.rows[y]
		row := rows.Row(y)
		row.Put(x, 0, canvas.PadLeft(units.Percent(style.Share(r.Weight, c.of)), panelShareW-1), t.Plain())
		if c.totals {
			row.Put(x+panelShareW, 0, canvas.PadLeft(units.Percent(style.Share(r.Total, c.of)), panelShareW-1), t.Dimmed())
		}
		p.drawBar(row.Sub(bar, 0, barW, 1), sc, r, c)
		p.drawName(row.Sub(name, 0, a.W-name, 1), sc, r, c)
		best := r.best
		sc.OnPress(row, func(h scene.Host, _, _ int) tea.Cmd { return p.selectRow(h, best) })
	}
	if left := len(c.rows) - n; left > 0 {
		a.PutRight(0, fmt.Sprintf("▼%d ", left), t.Dimmed())
	}
}

// drawBar draws a bar for a row's weight. The heaviest row has the longest bar. For wall time, the bar is divided into
// the states in which the time was spent.
func (p *Panel) drawBar(a canvas.Area, sc *scene.Scene, r *PanelRow, c *panelColumn) {
	t := &sc.Theme
	w := int(style.Share(r.Weight, c.rows[0].Weight)*float64(a.W) + 0.5)
	if p.Flame.Metric == flamegraph.Wall {
		t.DrawStates(a.Sub(0, 0, w, 1), &r.States, sc.Opt.ASCII)
		return
	}
	for x := range w {
		a.Rune(x, 0, '▇', canvas.Style{FG: t.Flame[r.from]})
	}
}

// drawName writes a function's name and its place in the code.
func (p *Panel) drawName(a canvas.Area, sc *scene.Scene, r *PanelRow, c *panelColumn) {
	t := &sc.Theme
	if c.word != "" && r.Label == c.itself && r.FuncKey == p.of.FuncKey {
		a.Put(0, 0, canvas.Cut(c.word, a.W), t.Dimmed())
		return
	}
	a.Put(0, 0, "■", canvas.Style{FG: t.Flame[r.from]})
	label, where := canvas.Clean(r.Label), ""
	room := a.W - 2
	labelW := room
	if r.File != "" && room >= leastPlaced {
		label, where = gvl.AddLine(label, style.LineIn(filepath.Base(r.File), r.Line, false))
		labelW = max(room-canvas.Width(where)-2, room*6/10)
	}
	x := a.Put(2, 0, flamegraph.LabelFit(label, labelW), t.Plain())
	if left := a.W - x - 2; left > 8 {
		a.Put(x+2, 0, canvas.CutLeft(where, left), t.Dimmed())
	}
}
