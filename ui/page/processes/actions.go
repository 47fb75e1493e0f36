package processes

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/scene"
)

// actions are the keys of view 8 that save, copy, mark or record a process: the one that is selected, whichever was opened
// last.
func (p *Page) actions() []scene.Binding {
	act := func(a scene.Action) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd { return p.act(h, a) }
	}
	return []scene.Binding{
		{Keys: []string{"s"}, Show: "s y m W", Help: "save, copy, mark or record the selected process", Do: act(scene.SaveAction)},
		{Keys: []string{"y"}, Do: act(scene.CopyAction)},
		{Keys: []string{"Y", "shift+y"}, Do: act(scene.CopySummaryAction)},
		{Keys: []string{"m"}, Do: act(scene.NoteAction)},
		{Keys: []string{"W", "shift+w"}, Do: act(scene.RecordAction)},
	}
}

// Meant is the process that an action is for: that of the selected row or finding, or the only one; nil: no one is selected.
func (p *Page) Meant() *scene.Member {
	switch k := p.findings.Index(); {
	case p.onLower && p.lower == lowerFindings && k >= 0:
		return p.findings.Rows[k].of
	case p.Table.Cursor.Of != nil:
		return p.Table.Cursor.Of
	case p.Table.Cursor.idle != 0: // it is not sampled
	case len(p.rows) == 1:
		return p.rows[0].Of
	}
	return nil
}

// act does something with the selected process.
func (p *Page) act(h scene.Host, a scene.Action) tea.Cmd {
	to := p.Meant()
	switch {
	case to == nil && p.Table.Cursor.idle != 0:
		h.Message().Fail("it is not sampled, so there is nothing to take from it")
	case to == nil:
		h.Message().Fail("of which process? ↑ ↓ select one, and press the key again")
	default:
		return h.Act(to, a)
	}
	return nil
}
