package ui

import tea "charm.land/bubbletea/v2"

// actions are the keys of view 8 that save, copy, mark or record a process: the one that is selected, whichever was opened
// last.
func (p *processesPage) actions() []binding {
	act := func(a action) func(Host) tea.Cmd {
		return func(h Host) tea.Cmd { return p.act(h, a) }
	}
	return []binding{
		{keys: []string{"s"}, show: "s y m W", help: "save, copy, mark or record the selected process", do: act(saveAction)},
		{keys: []string{"y"}, do: act(copyAction)},
		{keys: []string{"Y", "shift+y"}, do: act(copySummaryAction)},
		{keys: []string{"m"}, do: act(noteAction)},
		{keys: []string{"W", "shift+w"}, do: act(recordAction)},
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

// act does something with the selected process.
func (p *processesPage) act(h Host, a action) tea.Cmd {
	to := p.meant()
	switch {
	case to == nil && p.table.cursor.idle != 0:
		h.Message().fail("it is not sampled, so there is nothing to take from it")
	case to == nil:
		h.Message().fail("of which process? ↑ ↓ select one, and press the key again")
	default:
		return h.Act(to, a)
	}
	return nil
}
