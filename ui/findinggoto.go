package ui

import (
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// allFindings returns the findings at the top of the screen. In view 8 these are the findings of all processes. In
// other views they are the findings of the shown process.
func allFindings(m *Model) scene.Findings {
	if m.Page == scene.PageProcesses {
		return m.fleet.page.Worst(&m.Scene)
	}
	return m.Findings
}

// moveFinding selects the next or previous finding. If the text of the selected finding does not fit on the screen,
// moveFinding first scrolls through this text.
func moveFinding(m *Model, by widget.Step) tea.Cmd {
	o, v := &m.over, allFindings(m)
	if len(v.List) == 0 {
		return nil
	}
	switch d := by.Rows + by.Screens; {
	case d == 1 && o.Lines[1] > o.Scroll+o.Height:
		o.Scroll++
	case d == -1 && o.Lines[0] < o.Scroll:
		o.Scroll--
	default:
		at := max(v.Index(o.Finding), 0)
		o.Finding = v.ID(max(0, min(at+d, len(v.List)-1)))
	}
	return nil
}

// origin remembers the screen from which the user followed a finding or a route. The key esc returns to this screen.
type origin struct {
	of *scene.Member // the process of that screen; nil if ddtop shows only one process
	// The field to is the page to which the finding or route led. If the user opens any other page from there, esc does
	// not return to the origin.
	to         scene.PageID
	page       scene.PageID
	threadFrom scene.PageID
	over       widget.Overlay
	selection  scene.Selection
	focus      scene.Focus
	look       widget.FlameLook
	zoom       flamegraph.Path
	selected   flamegraph.Path
}

// goToFinding shows what a finding is about: the lock that threads wait for, the thread that causes the trouble, or the
// line of code in the flamegraph.
func goToFinding(m *Model, id scene.FindingID) tea.Cmd {
	v := allFindings(m)
	i := v.Index(id)
	if i < 0 {
		m.message.Say("that finding is gone")
		return nil
	}
	f := v.List[i]
	from, to := originOf(m), m
	if id.Of != nil && id.Of != m.fleet.shown {
		if err := m.fleet.open(id.Of); err != nil {
			m.message.Fail(err.Error())
			return nil
		}
		to = m.fleet.model(id.Of)
		to.Refresh() // load the page's data first: the data shows which of the finding's threads still exist
	}
	m.over = widget.Overlay{}
	cmd := goTo(to, &f)
	from.to, to.came = to.Page, &from
	to.Refresh()
	return cmd
}

// originOf describes the present screen, so that the user can return to it.
func originOf(m *Model) origin {
	o := origin{page: m.Page, threadFrom: m.ThreadFrom, over: m.over, selection: *m.Selection, focus: m.Focus,
		look: m.Flame.FlameLook, zoom: m.Flame.Zoom, selected: m.Flame.Selected}
	if m.fleet != nil {
		o.of = m.fleet.shown
	}
	return o
}

// goTo opens the page that shows what a finding is about.
func goTo(m *Model, f *findings.Finding) tea.Cmd {
	if f.Object != 0 {
		for _, l := range account.Locks(m.States) {
			if l.Object == f.Object {
				return openLock(m, &l)
			}
		}
	}
	for _, id := range f.Threads {
		if slices.ContainsFunc(m.Threads, func(t scene.Thread) bool { return t.ID == id }) {
			m.Selected = scene.RowKey{Thread: id}
			return m.Open(scene.PageThread)
		}
	}
	if label := codeOf(m.Dict, f.Stack); label != "" {
		return openCode(m, label)
	}
	if strings.HasPrefix(f.ID, "gc_") || strings.HasPrefix(f.ID, "memory") {
		return m.Open(scene.PageMemory)
	}
	return m.Open(scene.PageThreads)
}

// openLock shows the view of locks with the cursor on the lock l.
func openLock(m *Model, l *account.Contended) tea.Cmd {
	if p, ok := m.pages[scene.PageLocks].(interface{ SelectLock(*account.Contended) }); ok {
		p.SelectLock(l)
	}
	return m.Open(scene.PageLocks)
}

// openCode opens the flamegraph of all threads and searches it for a function.
func openCode(m *Model, label string) tea.Cmd {
	m.Flame.Search = regexp.MustCompile("^" + regexp.QuoteMeta(label) + "$")
	m.Flame.Sought = m.Flame.Search
	m.Flame.Zoom, m.Flame.Top, m.Focus = nil, 0, scene.OnFlame
	m.Filter, m.Selected, m.Route = scene.RowKey{}, scene.RowKey{}, scene.EndpointKey{}
	cmd := m.Open(scene.PageLive)
	m.Flame.NextMatch(+1)
	m.Refresh()
	return cmd
}

// codeOf returns the label of the innermost Ruby function of a stack, or "" if there is none.
func codeOf(dict *sampler.Dictionary, stack sampler.StackID) string {
	if stack == 0 {
		return ""
	}
	p, _ := flamegraph.PlaceOf(dict, stack)
	return p.Method
}

// cameFrom reports whether esc returns to the screen from which the user followed a finding or a route.
func cameFrom(m *Model) bool { return m.came != nil && m.came.to == m.Page }

// comeBack returns to the screen from which the user followed a finding or a route.
func comeBack(m *Model) tea.Cmd {
	c := m.came
	m.came = nil
	to := m
	if c.of != nil && c.of != m.fleet.shown {
		if err := m.fleet.open(c.of); err != nil {
			m.message.Fail(err.Error())
			return nil
		}
		to = m.fleet.model(c.of)
	}
	to.Page, to.ThreadFrom, to.over = c.page, c.threadFrom, c.over
	*to.Selection, to.Focus, to.Flame.FlameLook = c.selection, c.focus, c.look
	to.Flame.Zoom, to.Flame.Selected = c.zoom, c.selected
	to.Refresh()
	return to.fetch()
}

// backKeys are the keys that return to the screen from which the user followed a finding or a route.
func backKeys() scene.KeyMap {
	return scene.KeyMap{Title: "from a finding or a route", Bindings: []scene.Binding{
		{Keys: []string{"esc", "backspace"}, Show: "esc", Short: "back", Always: true, Help: "back to where it was chosen",
			Do: on(comeBack)},
	}}
}
