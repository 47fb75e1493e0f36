package ui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/store"
)

// The Model is the Host of its pages.

// Scene returns what the picture is made from.
func (m *Model) Scene() *scene { return &m.scene }

// Store returns what the scene is loaded from.
func (m *Model) Store() *store.Store { return m.store }

// Message returns the line at the bottom.
func (m *Model) Message() *message { return &m.message }

// Refresh takes over what the Store holds and draws it.
func (m *Model) Refresh() { loadScene(m, true) }

// Draw makes the picture from what the Model holds.
func (m *Model) Draw() { draw(m) }

// Open shows a page.
func (m *Model) Open(id pageID) tea.Cmd {
	if id == pageThread && m.page != pageThread {
		m.threadFrom = m.page
	}
	m.page, m.came = id, nil
	if id == pageLive && m.filter != (rowKey{}) && m.filter != m.selected { // another was selected meanwhile
		m.filter, m.flame.zoom, m.flame.top = m.selected, nil, 0
	}
	m.Refresh()
	return m.wanted()
}

// Leave remembers what is on the screen, so that esc leads back to it.
func (m *Model) Leave() (arrived func()) {
	from := m.origin()
	return func() { from.to, m.came = m.page, &from }
}

// GoToFinding shows what a finding is about.
func (m *Model) GoToFinding(id findingID) tea.Cmd { return goToFinding(m, id) }

// ShowFindings lists all findings over the screen.
func (m *Model) ShowFindings() { m.over = overlay{what: findingsOverlay} }

// ShowWait shows a wait on the timeline.
func (m *Model) ShowWait(e *store.WaitEvent) tea.Cmd {
	m.selected = rowKey{thread: e.Thread}
	if p, ok := m.pages[pageTimeline].(interface {
		ShowWait(h Host, e *store.WaitEvent)
	}); ok {
		p.ShowWait(m, e)
	}
	return m.Open(pageTimeline)
}

// OpenProcess shows the live view of another process.
func (m *Model) OpenProcess(of *member) tea.Cmd {
	m.page = pageLive
	return m.fleet.openAndRefresh(of)
}

// Act opens a process behind the view of all processes, which stays, and lets its screen act.
func (m *Model) Act(of *member, a action) tea.Cmd {
	if of != m.fleet.shown {
		if err := m.fleet.open(of); err != nil {
			m.message.fail(err.Error())
			return nil
		}
		m.fleet.screen().Refresh() // what it saves or copies is that of now
	}
	to := m.fleet.screen()
	to.message.clear()
	var cmd tea.Cmd
	switch a {
	case saveAction:
		cmd = save(to)
	case copyAction:
		cmd = yank(to)
	case copySummaryAction:
		cmd = yankSummary(to)
	case noteAction:
		openNote(to)
	case recordAction:
		cmd = to.recordKey.press(to.store, &to.scene, &to.message)
	}
	process := of.store.Process()
	if to.prompt != nil {
		to.prompt.label = fmt.Sprintf("%s %d, %s", process.Title, process.PID, to.prompt.label)
	} else if to.message.text != "" {
		to.message.text = fmt.Sprintf("%s %d: %s", process.Title, process.PID, to.message.text)
	}
	to.Draw()
	return cmd
}
