package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
)

// components are what several views are made of. A page gets those that it shows.
type components struct {
	chosen   *selection
	timeline timelineView
	flame    flameView
	panel    panelView
	whereNow nowView
}

func newComponents(s *selection) *components {
	c := &components{chosen: s, timeline: newTimelineView(s)}
	c.whereNow.flame = &c.flame
	c.panel.flame, c.panel.timeline, c.panel.now = &c.flame, &c.timeline, &c.whereNow
	return c
}

// highlightsFrame reports whether the timeline shows where the selected frame runs: while the keys go to the flamegraph beside
// it. A row that stands for left-out frames, or for what a limit cut off, has no place of its own.
func (c *components) highlightsFrame(sc *scene) bool {
	n := c.flame.selNode
	return sc.page == pageLive && sc.focus == onFlame && n != nil && n.Parent != nil && n.Kind != flamegraph.CutNode
}

// OpenSelected opens the selected thread, or opens and closes the selected group.
func (v *timelineView) OpenSelected(h Host) tea.Cmd {
	switch i := v.index(); {
	case i < 0:
		v.move(step{rows: +1})
	case v.rows[i].isGroup:
		v.expand(!v.rows[i].open)
	default:
		return h.Open(pageThread)
	}
	h.Refresh()
	return nil
}
