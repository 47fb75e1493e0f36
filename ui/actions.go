package ui

import (
	"slices"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
)

func (m *Model) switchFocus() {
	if m.focus == onTimeline {
		m.focus = onFlame
		m.flame.first()
	} else {
		m.focus = onTimeline
	}
	m.refresh()
}

func (m *Model) toggleFreeze() {
	m.frozen = !m.frozen
	m.leaveRange()
	m.refresh()
}

// leaveRange returns, with the picture of now, to the stretch of time from before a part of it was selected.
func (m *Model) leaveRange() {
	if !m.frozen && m.liveNS != 0 {
		m.windowNS, m.liveNS = m.liveNS, 0
	}
}

// scrubStep is how far one key press moves in time.
func (m *Model) scrubStep() int64 { return max(m.windowNS/30, columnNS) }

// scrub moves the moment that is shown; past the newest sample the picture is live again.
func (m *Model) scrub(d int64) {
	if !m.frozen {
		if d > 0 {
			return
		}
		m.frozen, m.atNS = true, m.lastNS
	}
	m.atNS += d * m.scrubStep()
	m.atNS = max(m.atNS, m.oldestNS+columnNS)
	if m.atNS >= m.lastNS {
		m.frozen = false
		m.leaveRange()
	}
	m.refresh()
}

// windows are the stretches of time that { and } go through.
var windows = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// zoomTime makes the stretch of time longer (+1) or shorter (-1).
func (m *Model) zoomTime(d int) {
	list := make([]int64, 0, len(windows))
	for _, w := range windows {
		if int64(w) <= m.store.keepNS {
			list = append(list, int64(w))
		}
	}
	i, exact := slices.BinarySearch(list, m.windowNS)
	switch {
	case d > 0 && exact:
		i++
	case d < 0:
		i--
	}
	if i >= 0 && i < len(list) {
		m.windowNS = list[i]
		m.refresh()
	}
}

// selectThread moves the selection in the live view's timeline. The flamegraph under it shows the selected thread or group
// alone at once: they are linked.
func (m *Model) selectThread(move func(*timelineView)) {
	move(&m.timeline)
	if m.filter != m.timeline.selected {
		m.filter = m.timeline.selected
		m.flame.zoom, m.flame.top = nil, 0
	}
	m.refresh()
}

// selection is what the live view shows of whom.
type selection struct {
	row, filter rowKey
	zoom        flamegraph.Path
}

func (m *Model) selection() selection { return selection{m.timeline.selected, m.filter, m.flame.zoom} }

func (m *Model) restore(s selection) {
	m.timeline.selected, m.filter, m.flame.zoom = s.row, s.filter, s.zoom
}

// openSelected opens the selected thread, or opens and closes the selected group.
func (m *Model) openSelected() tea.Cmd {
	switch i := m.timeline.index(); {
	case i < 0:
		m.timeline.move(+1)
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
	return len(m.flame.zoom) > 0 || m.flame.shaped() || m.filter != (rowKey{}) || m.flame.search != nil || m.highlightsFrame()
}

// back undoes one thing: the zoom, then the filter, then the search, then the selection that the timeline follows.
func (m *Model) back() {
	switch {
	case m.flame.zoomOut():
	case m.flame.shaped():
		m.flame.unshape()
	case m.filter != (rowKey{}):
		m.filter, m.timeline.selected = rowKey{}, rowKey{}
	case m.flame.search != nil:
		m.flame.search = nil
	default:
		m.flame.selected, m.flame.selNode = nil, nil
	}
	m.refresh()
}

func (m *Model) nextMatch(d int) {
	m.focus = onFlame
	m.flame.nextMatch(d)
	m.refresh()
}
