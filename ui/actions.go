package ui

func (m *Model) searching() bool { return m.flame.search != nil }

func canGoBack(m *Model) bool {
	return len(m.flame.zoom) > 0 || m.flame.shaped() || m.filter != (rowKey{}) || m.route != (endpointKey{}) || m.flame.search != nil || m.components.highlightsFrame(&m.scene)
}

// back undoes one thing: the zoom, then the filter, then the route, then the search, then the selection that the timeline follows.
func back(m *Model) {
	switch {
	case m.flame.zoomOut():
	case m.flame.shaped():
		m.flame.unshape()
	case m.filter != (rowKey{}):
		m.filter, m.selected = rowKey{}, rowKey{}
	case m.route != (endpointKey{}):
		m.route = endpointKey{}
	case m.flame.search != nil:
		m.flame.search = nil
	default:
		m.flame.selected, m.flame.selNode = nil, nil
	}
	m.Refresh()
}

// playFaster changes the speed while the history is played.
func playFaster(m *Model, d int) {
	if !m.playing {
		m.message.tell("+ - change the speed while the history plays: p plays it")
		return
	}
	m.changeSpeed(d)
}

func nextMatch(m *Model, d int) {
	if m.flame.search == nil {
		m.message.tell("nothing is searched for: / searches")
		return
	}
	if !m.hasFlame() { // lists hold what matches alone
		key := "down"
		if d < 0 {
			key = "up"
		}
		if b := m.binding(key); b != nil {
			b.do(m)
		}
		return
	}
	m.focus = onFlame
	m.flame.nextMatch(d)
	m.Refresh()
}
