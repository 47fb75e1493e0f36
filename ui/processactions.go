package ui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"
)

// actions are the keys of view 8 that save, copy, mark or record a process: the one that is selected, whichever was opened
// last.
func (p *processesPage) actions() []binding {
	return []binding{
		{keys: []string{"s"}, show: "s y m W", help: "save, copy, mark or record the selected process",
			do: func(m *Model) tea.Cmd { return p.act(m, (*Model).save) }},
		{keys: []string{"y"}, do: func(m *Model) tea.Cmd { return p.act(m, (*Model).yank) }},
		{keys: []string{"Y", "shift+y"}, do: func(m *Model) tea.Cmd { return p.act(m, (*Model).yankSummary) }},
		{keys: []string{"m"}, do: func(m *Model) tea.Cmd {
			return p.act(m, func(m *Model) tea.Cmd { m.openNote(); return nil })
		}},
		{keys: []string{"W", "shift+w"}, do: func(m *Model) tea.Cmd {
			return p.act(m, func(m *Model) tea.Cmd { return m.recordKey.press(m.store, &m.scene, &m.message) })
		}},
	}
}

// meant is the process that an action is for: that of the selected row or finding, or the only one; nil: no one is selected.
func (p *processesPage) meant() *member {
	switch k := p.findings.index(); {
	case p.onLower && p.lower == lowerFindings && k >= 0:
		return p.findings.rows[k].of
	case p.table.cursor.of != nil:
		return p.table.cursor.of
	case p.table.cursor.idle != 0: // it is not sampled
	case len(p.rows) == 1:
		return p.rows[0].of
	}
	return nil
}

// act opens the selected process behind view 8, which stays, and lets its screen act.
func (p *processesPage) act(m *Model, do func(*Model) tea.Cmd) tea.Cmd {
	to := p.meant()
	if to == nil && p.table.cursor.idle != 0 {
		m.message.fail("it is not sampled, so there is nothing to take from it")
		return nil
	}
	if to == nil {
		m.message.fail("of which process? ↑ ↓ select one, and press the key again")
		return nil
	}
	if to != p.fleet.shown {
		if err := p.fleet.open(to); err != nil {
			m.message.fail(err.Error())
			return nil
		}
		to.model.refresh() // what it saves or copies is that of now
	}
	to.model.message.clear()
	cmd := do(to.model)
	process := to.store.Process()
	if x := to.model; x.prompt != nil {
		x.prompt.label = fmt.Sprintf("%s %d, %s", process.Title, process.PID, x.prompt.label)
	} else if x.message.text != "" {
		x.message.text = fmt.Sprintf("%s %d: %s", process.Title, process.PID, x.message.text)
	}
	to.model.draw()
	return cmd
}
