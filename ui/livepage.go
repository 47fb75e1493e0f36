package ui

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// livePage is the timeline and the flamegraph together: what is selected in the one is what the other shows. It has the whole
// screen under the head lines, with a time axis in place of the rule with the views' names.
type livePage struct {
	*components
	keyMaps [2]keyMap // by focus
}

func newLivePage(c *components) *livePage {
	p := &livePage{components: c}
	tab := func(to string) binding {
		return binding{keys: []string{"tab", "shift+tab"}, show: "tab", short: to, help: "move between timeline and flamegraph",
			do: func(h Host) tea.Cmd { p.switchFocus(h); return nil }}
	}
	flame := flameKeys(&c.flame)
	flame.bindings = slices.Insert(flame.bindings, 1, tab("timeline"))
	p.keyMaps = [2]keyMap{p.timelineKeys(tab("flamegraph")), flame}
	return p
}

func (p *livePage) timelineKeys(tab binding) keyMap {
	selecting := func(h Host, by step) tea.Cmd {
		p.selectThread(h, func(v *timelineView) { v.move(by) })
		return nil
	}
	expanding := func(open bool) func(Host) tea.Cmd {
		return func(h Host) tea.Cmd {
			p.selectThread(h, func(v *timelineView) { v.expand(open) })
			return nil
		}
	}
	return keyMap{title: "timeline", bindings: slices.Concat([]binding{
		{keys: []string{"enter"}, show: "enter", short: "open", help: "open the thread: stack, source, waits; or the group",
			do: func(h Host) tea.Cmd {
				if p.timeline.index() < 0 {
					return selecting(h, step{rows: +1})
				}
				return p.timeline.OpenSelected(h)
			}},
		tab,
	}, cursorKeys("", "select a thread or group, for the flamegraph too", selecting), []binding{
		{keys: []string{"right", "l"}, show: "→ ←", short: "", help: "open and close a group (also l, h)", do: expanding(true)},
		{keys: []string{"left", "h"}, do: expanding(false)},
	})}
}

func (p *livePage) keys(sc *scene, all bool) []*keyMap {
	if all {
		return []*keyMap{&p.keyMaps[onTimeline], &p.keyMaps[onFlame]}
	}
	return []*keyMap{&p.keyMaps[sc.focus]}
}

// selectThread moves the selection in the timeline. The flamegraph under it shows the selected thread or group alone at once.
func (p *livePage) selectThread(h Host, move func(*timelineView)) {
	move(&p.timeline)
	if s := p.chosen; s.filter != s.selected {
		s.filter = s.selected
		p.flame.zoom, p.flame.top = nil, 0
	}
	h.Refresh()
}

func (p *livePage) load(sc *scene, r *store.Reading) {
	p.timeline.loadCells(sc, r, sc.cells, sc.regions.rowCount)
}

func (p *livePage) about(*scene) string { return "" }

func (p *livePage) draw(a canvas.Area, sc *scene) {
	r, t := &sc.regions, &sc.Theme
	p.timeline.drawAxis(a.Row(r.axis), t, r, sc.focus == onTimeline, sc.nowWord(), sc.nowWord())
	sc.notes.draw(a.Sub(r.cellsX, r.axis, r.cellsW, 1), &p.timeline, t)
	rows := a.Sub(0, r.rows, sc.width, r.rowCount)
	p.timeline.draw(rows, a.Sub(0, r.lanes, sc.width, r.laneCount), t, r, sc.focus == onTimeline, sc.opt.ASCII)
	sc.onPress(rows, p.pressRow)
	sc.drawDrag(p.axisArea(a, sc))
	if r.legend > 0 {
		style.DrawLegend(a.Row(r.legend), t, sc.opt.ASCII)
	}
	p.flame.drawRule(a.Row(r.rule), t, sc.focus == onFlame, sc.when())
	high := p.panel.flameRows(sc)
	flame := a.Sub(0, r.flame, sc.width, high)
	p.flame.draw(flame, t, sc.focus == onFlame, !sc.opt.NoColor)
	sc.onPress(flame, func(h Host, x, y int) tea.Cmd {
		h.Scene().focus = onFlame
		p.flame.selectAt(x, y, high)
		h.Refresh()
		return nil
	})
	p.panel.draw(a.Sub(0, r.flame+high, sc.width, p.panel.rows), sc)
}

func (p *livePage) axisArea(a canvas.Area, sc *scene) canvas.Area {
	r := &sc.regions
	return a.Sub(r.cellsX, r.axis, r.cellsW, r.lanes+r.laneCount-r.axis)
}

// pressRow selects the row that was clicked; on the sign of a group it opens or closes it.
func (p *livePage) pressRow(h Host, x, y int) tea.Cmd {
	if y >= len(p.timeline.visible) {
		return nil
	}
	w := &p.timeline.visible[y]
	h.Scene().focus = onTimeline
	p.selectThread(h, func(v *timelineView) {
		v.selected = w.key
		if w.isGroup && x <= groupSign {
			v.expand(!w.open)
		}
	})
	return nil
}

func (p *livePage) wheel(h Host, _, y, d int, onAxis bool) (tea.Cmd, bool) {
	switch {
	case onAxis:
		h.Scene().zoom(d)
		h.Refresh()
	case y >= h.Scene().regions.rule:
		p.flame.scrollBy(d) // refresh keeps it within the picture, and the selection in sight
		h.Refresh()
	default:
		p.selectThread(h, func(v *timelineView) { v.move(step{rows: d}) })
	}
	return nil, true
}

func (p *livePage) detail(sc *scene) (name, rest string) {
	if sc.focus == onFlame {
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
	if sc.focus == onFlame {
		return p.flame.stack()
	}
	return sc.threadStack(p.timeline.chosen())
}

// switchFocus moves between the timeline and the flamegraph.
func (p *livePage) switchFocus(h Host) {
	sc := h.Scene()
	if sc.focus = onFlame - sc.focus; sc.focus == onFlame {
		p.flame.first()
	}
	h.Refresh()
}
