package ui

import (
	"github.com/ddtop/ddtop/ui/scene"
)

func searching(m *Model) bool { return m.Flame.Search != nil }

func canGoBack(m *Model) bool {
	return len(m.Flame.Zoom) > 0 || m.Flame.Shaped() || m.Filter != (scene.RowKey{}) || m.Route != (scene.EndpointKey{}) || m.Flame.Search != nil || m.Parts.HighlightsFrame(&m.Scene)
}

// back undoes one thing: the zoom, then the filter, then the route, then the search, then the selection that the timeline follows.
func back(m *Model) {
	switch {
	case m.Flame.ZoomOut():
	case m.Flame.Shaped():
		m.Flame.Unshape()
	case m.Filter != (scene.RowKey{}):
		m.Filter, m.Selected = scene.RowKey{}, scene.RowKey{}
	case m.Route != (scene.EndpointKey{}):
		m.Route = scene.EndpointKey{}
	case m.Flame.Search != nil:
		m.Flame.Search = nil
	default:
		m.Flame.Selected, m.Flame.SelNode = nil, nil
	}
	m.Refresh()
}

// playFaster changes the speed while the history is played.
func playFaster(m *Model, d int) {
	if !m.Playing {
		m.message.Tell("+ - change the speed while the history plays: p plays it")
		return
	}
	m.ChangeSpeed(d)
}

func nextMatch(m *Model, d int) {
	if m.Flame.Search == nil {
		m.message.Tell("nothing is searched for: / searches")
		return
	}
	if !hasFlame(m) { // lists hold what matches alone
		key := "down"
		if d < 0 {
			key = "up"
		}
		if b := m.binding(key); b != nil {
			b.Do(m)
		}
		return
	}
	m.Focus = scene.OnFlame
	m.Flame.NextMatch(d)
	m.Refresh()
}
