package ui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/widget"
)

// The following methods implement scene.Host, the interface through which pages use the Model.

// Showing returns the scene: the data that the picture shows.
func (m *Model) Showing() *scene.Scene { return &m.Scene }

// Store returns the Store from which the scene is loaded.
func (m *Model) Store() *store.Store { return m.store }

// Message returns the line at the bottom.
func (m *Model) Message() *scene.Message { return &m.message }

// Refresh loads the scene from the Store again, and then draws the picture.
func (m *Model) Refresh() { loadScene(m, true) }

// Draw draws the picture from the scene that is already loaded.
func (m *Model) Draw() { draw(m) }

// Open shows a page.
func (m *Model) Open(id scene.PageID) tea.Cmd {
	if id == scene.PageThread && m.Page != scene.PageThread {
		if m.ThreadFrom = m.Page; m.Page != scene.PageRequests {
			m.Opened = scene.Opened{}
		}
	}
	from := m.Page
	m.Page, m.came = id, nil
	if m.fleet != nil && from == scene.PageProcesses && id != from {
		if to := m.fleet.page.Leads(m.fleet.opened); to != nil && to != m.fleet.shown {
			return m.fleet.openAndRefresh(to)
		}
	}
	// the user opened this view for another row before
	if id == scene.PageLive && m.Filter != (scene.RowKey{}) && m.Filter != m.Selected {
		m.Filter, m.Flame.Zoom, m.Flame.Top = m.Selected, nil, 0
	}
	m.Refresh()
	return m.fetch()
}

// Leave remembers the present screen, so that esc can return to it. The caller then opens another page. After that it
// calls arrived, and from then on esc returns to the remembered screen.
func (m *Model) Leave() (arrived func()) {
	from := originOf(m)
	return func() { from.to, m.came = m.Page, &from }
}

// GoToFinding shows the subject of a finding.
func (m *Model) GoToFinding(id scene.FindingID) tea.Cmd { return goToFinding(m, id) }

// ShowFindings lists all findings over the screen.
func (m *Model) ShowFindings() { m.over = widget.Overlay{What: widget.FindingsOverlay} }

// ShowWait shows a wait on the timeline.
func (m *Model) ShowWait(e *store.WaitEvent) tea.Cmd {
	m.Selected = scene.RowKey{Thread: e.Thread}
	if p, ok := m.pages[scene.PageTimeline].(interface {
		ShowWait(h scene.Host, e *store.WaitEvent)
	}); ok {
		p.ShowWait(m, e)
	}
	return m.Open(scene.PageTimeline)
}

// OpenProcess shows the live view of another process.
func (m *Model) OpenProcess(of *scene.Member) tea.Cmd {
	m.Page = scene.PageLive
	return m.fleet.openAndRefresh(of)
}

// Act performs an action, such as saving, on a process's own screen. The view of all processes stays visible.
func (m *Model) Act(of *scene.Member, a scene.Action) tea.Cmd {
	if of != m.fleet.shown {
		if err := m.fleet.open(of); err != nil {
			m.message.Fail(err.Error())
			return nil
		}
		m.fleet.screen().Refresh() // so that the action saves or copies new data
	}
	to := m.fleet.screen()
	to.message.Clear()
	var cmd tea.Cmd
	switch a {
	case scene.SaveAction:
		cmd = save(to)
	case scene.CopyAction:
		cmd = yank(to)
	case scene.CopySummaryAction:
		cmd = yankSummary(to)
	case scene.NoteAction:
		openNote(to)
	case scene.RecordAction:
		cmd = to.recordKey.press(to.store, &to.Scene, &to.message)
	}
	process := of.Store.Process()
	if to.prompt != nil {
		to.prompt.label = fmt.Sprintf("%s %d, %s", process.Name(), process.PID, to.prompt.label)
	} else if to.message.Text != "" {
		to.message.Text = fmt.Sprintf("%s %d: %s", process.Name(), process.PID, to.message.Text)
	}
	to.Draw()
	return cmd
}
