package ui

import (
	tea "charm.land/bubbletea/v2"
)

// selectThread moves the selection in the live view's timeline. The flamegraph under it shows the selected thread or group
// alone at once: they are linked.
func (m *Model) selectThread(move func(*timelineView)) {
	move(&m.timeline)
	if m.filter != m.selected {
		m.filter = m.selected
		m.flame.zoom, m.flame.top = nil, 0
	}
	m.refresh()
}

// openSelected opens the selected thread, or opens and closes the selected group.
func (m *Model) openSelected() tea.Cmd {
	switch i := m.timeline.index(); {
	case i < 0:
		m.timeline.move(step{rows: +1})
	case m.timeline.rows[i].isGroup:
		m.timeline.expand(!m.timeline.rows[i].open)
	default:
		return m.open(pageThread)
	}
	m.refresh()
	return nil
}

func (m *Model) searching() bool { return m.flame.search != nil }

func (m *Model) canGoBack() bool {
	return len(m.flame.zoom) > 0 || m.flame.shaped() || m.filter != (rowKey{}) || m.route != (endpointKey{}) || m.flame.search != nil || m.highlightsFrame()
}

// back undoes one thing: the zoom, then the filter, then the route, then the search, then the selection that the timeline follows.
func (m *Model) back() {
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
	m.refresh()
}

// playFaster changes the speed while the history is played.
func (m *Model) playFaster(d int) {
	if !m.playing {
		m.message.tell("+ - change the speed while the history plays: p plays it")
		return
	}
	m.changeSpeed(d)
}

func (m *Model) nextMatch(d int) {
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
	m.live.focus = onFlame
	m.flame.nextMatch(d)
	m.refresh()
}
