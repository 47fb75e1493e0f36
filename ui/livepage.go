package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// focus is the part of the live view that the arrow keys and enter go to.
type focus uint8

const (
	onTimeline focus = iota
	onFlame
)

// livePage is the timeline and the flamegraph together: what is selected in the one is what the other shows. It has the whole
// screen under the head lines, with a time axis in place of the rule with the views' names.
type livePage struct {
	*components
	keys  [2]keyMap // by focus
	focus focus
}

func newLivePage(c *components) *livePage {
	return &livePage{components: c, keys: [2]keyMap{timelineKeys(), flameKeys()}}
}

func (p *livePage) keyMap() *keyMap { return &p.keys[p.focus] }

func (p *livePage) load(sc *scene, r *store.Reading) {
	p.timeline.loadCells(sc, r, sc.cells, sc.regions.rowCount)
}

func (p *livePage) about(*scene) string { return "" }

func (p *livePage) draw(a canvas.Area, sc *scene) {
	r, t := &sc.regions, &sc.Theme
	p.timeline.drawAxis(a.Row(r.axis), t, r, p.focus == onTimeline, sc.nowWord(), sc.nowWord())
	sc.notes.draw(a.Sub(r.cellsX, r.axis, r.cellsW, 1), &p.timeline, t)
	rows := a.Sub(0, r.rows, sc.width, r.rowCount)
	p.timeline.draw(rows, a.Sub(0, r.lanes, sc.width, r.laneCount), t, r, p.focus == onTimeline, sc.opt.ASCII)
	sc.onPress(rows, p.pressRow)
	sc.drawDrag(p.axisArea(a, sc))
	if r.legend > 0 {
		style.DrawLegend(a.Row(r.legend), t, sc.opt.ASCII)
	}
	p.flame.drawRule(a.Row(r.rule), t, p.focus == onFlame, sc.when())
	h := p.panel.flameRows(sc)
	flame := a.Sub(0, r.flame, sc.width, h)
	p.flame.draw(flame, t, p.focus == onFlame, !sc.opt.NoColor)
	sc.onPress(flame, func(m *Model, x, y int) tea.Cmd {
		p.focus = onFlame
		p.flame.selectAt(x, y, h)
		m.refresh()
		return nil
	})
	p.panel.draw(a.Sub(0, r.flame+h, sc.width, p.panel.rows), sc)
}

func (p *livePage) axisArea(a canvas.Area, sc *scene) canvas.Area {
	r := &sc.regions
	return a.Sub(r.cellsX, r.axis, r.cellsW, r.lanes+r.laneCount-r.axis)
}

// pressRow selects the row that was clicked; on the sign of a group it opens or closes it.
func (p *livePage) pressRow(m *Model, x, y int) tea.Cmd {
	if y >= len(p.timeline.visible) {
		return nil
	}
	w := &p.timeline.visible[y]
	p.focus = onTimeline
	m.selectThread(func(v *timelineView) {
		v.selected = w.key
		if w.isGroup && x <= groupSign {
			v.expand(!w.open)
		}
	})
	return nil
}

func (p *livePage) wheel(m *Model, _, y, d int, onAxis bool) (tea.Cmd, bool) {
	switch {
	case onAxis:
		m.zoom(d)
		m.refresh()
	case y >= m.regions.rule:
		p.flame.scrollBy(d) // refresh keeps it within the picture, and the selection in sight
		m.refresh()
	default:
		m.selectThread(func(v *timelineView) { v.move(step{rows: d}) })
	}
	return nil, true
}

func (p *livePage) detail(sc *scene) (name, rest string) {
	if p.focus == onFlame {
		if name, rest = p.flame.detail(sc.dict); name == "" {
			rest = "↑ ↓ ← → select a frame   enter zooms in"
		}
		return name, rest
	}
	if name, rest = p.timeline.detail(sc); name == "" {
		rest = "↑ ↓ select a thread   the flamegraph shows it alone"
		if len(p.timeline.idents.of) > 0 {
			rest += "   the sign before a name: its turns in the row of the GVL"
		}
	}
	return name, rest
}

func (p *livePage) stack(sc *scene) (string, []string) {
	if p.focus == onFlame {
		return p.flame.stack()
	}
	return sc.threadStack(p.timeline.chosen())
}

// switchFocus moves between the timeline and the flamegraph.
func (p *livePage) switchFocus(m *Model) {
	if p.focus = onFlame - p.focus; p.focus == onFlame {
		p.flame.first()
	}
	m.refresh()
}

// highlightsFrame reports whether the timeline shows where the selected frame runs: while the keys go to the flamegraph beside
// it. A row that stands for left-out frames, or for what a limit cut off, has no place of its own.
func (p *livePage) highlightsFrame() bool {
	n := p.flame.selNode
	return p.focus == onFlame && n != nil && n.Parent != nil && n.Kind != flamegraph.CutNode
}
