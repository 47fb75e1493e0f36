package widget

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/scene"
)

// Parts are what several views are made of. A page gets those that it shows.
type Parts struct {
	Chosen   *scene.Selection
	Timeline Timeline
	Flame    Flame
	Panel    Panel
	Now      Now
}

func NewParts(s *scene.Selection) *Parts {
	c := &Parts{Chosen: s, Timeline: newTimelineView(s)}
	c.Now.flame = &c.Flame
	c.Panel.Flame, c.Panel.timeline, c.Panel.now = &c.Flame, &c.Timeline, &c.Now
	return c
}

// HighlightsFrame reports whether the timeline shows where the selected frame runs: while the keys go to the flamegraph beside
// it. A row that stands for left-out frames, or for what a limit cut off, has no place of its own.
func (c *Parts) HighlightsFrame(sc *scene.Scene) bool {
	n := c.Flame.SelNode
	return sc.Page == scene.PageLive && sc.Focus == scene.OnFlame && n != nil && n.Parent != nil && n.Kind != flamegraph.CutNode
}

// OpenSelected opens the selected thread, or opens and closes the selected group.
func (v *Timeline) OpenSelected(h scene.Host) tea.Cmd {
	switch i := v.Index(); {
	case i < 0:
		v.Move(Step{Rows: +1})
	case v.Rows[i].IsGroup:
		v.Expand(!v.Rows[i].Open)
	default:
		return h.Open(scene.PageThread)
	}
	h.Refresh()
	return nil
}
