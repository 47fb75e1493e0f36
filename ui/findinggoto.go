package ui

import (
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// findingID tells a finding from the others, from picture to picture: a process has one of each rule.
type findingID struct {
	of   *member // nil: the one that is shown
	rule string
}

// id is what tells the finding at an index from the others; the zero value where there is none.
func (f *findingsView) id(i int) findingID {
	if i >= len(f.list) {
		return findingID{}
	}
	id := findingID{rule: f.list[i].ID}
	if f.of != nil {
		id.of = f.of[i]
	}
	return id
}

// index is where a finding is now; -1: it is gone.
func (f *findingsView) index(id findingID) int {
	for i := range f.list {
		if f.id(i) == id {
			return i
		}
	}
	return -1
}

// onPress makes a click on a finding go to what it is about.
func (f *findingsView) onPress(sc *scene, a canvas.Area, i int) {
	id := f.id(i)
	sc.onPress(a, func(h Host, _, _ int) tea.Cmd { return h.GoToFinding(id) })
}

// moreFindings makes a click on "+2 more: !" at the end of a row open the list of all.
func moreFindings(sc *scene, row canvas.Area, n int) {
	w := canvas.Width(moreText(n)) + 1
	sc.onPress(row.Sub(row.W-w, 0, w, 1), func(h Host, _, _ int) tea.Cmd { h.ShowFindings(); return nil })
}

// allFindings are those of the screen's head: of the process that is shown, on view 8 of all.
func allFindings(m *Model) findingsView {
	if m.page == pageProcesses {
		return m.fleet.page.worst(&m.scene)
	}
	return m.findings
}

// moveFinding selects another finding. One that is longer than the screen is scrolled through first.
func moveFinding(m *Model, by step) tea.Cmd {
	o, v := &m.over, allFindings(m)
	if len(v.list) == 0 {
		return nil
	}
	switch d := by.rows + by.screens; {
	case d == 1 && o.lines[1] > o.scroll+o.height:
		o.scroll++
	case d == -1 && o.lines[0] < o.scroll:
		o.scroll--
	default:
		at := max(v.index(o.finding), 0)
		o.finding = v.id(max(0, min(at+d, len(v.list)-1)))
	}
	return nil
}

// origin is what was on the screen when somebody went to what a finding or a route is about: esc comes back to it.
type origin struct {
	of *member // whose screen it was; nil: there is one process
	// to is the page that the finding led to. On any other the way back is forgotten.
	to         pageID
	page       pageID
	threadFrom pageID
	over       overlay
	selection  selection
	focus      focus
	look       flameLook
	zoom       flamegraph.Path
	selected   flamegraph.Path
}

// goToFinding shows what a finding is about: the lock that threads wait for, the culprit's thread, or the line of code in the
// flamegraph.
func goToFinding(m *Model, id findingID) tea.Cmd {
	v := allFindings(m)
	i := v.index(id)
	if i < 0 {
		m.message.say("that finding is gone")
		return nil
	}
	f := v.list[i]
	from, to := m.origin(), m
	if id.of != nil && id.of != m.fleet.shown {
		if err := m.fleet.open(id.of); err != nil {
			m.message.fail(err.Error())
			return nil
		}
		to = m.fleet.model(id.of)
		to.Refresh() // its threads are needed to tell which are still there
	}
	m.over = overlay{}
	cmd := goTo(to, &f)
	from.to, to.came = to.page, &from
	to.Refresh()
	return cmd
}

// origin is what is on the screen.
func (m *Model) origin() origin {
	o := origin{page: m.page, threadFrom: m.threadFrom, over: m.over, selection: *m.selection, focus: m.focus,
		look: m.flame.flameLook, zoom: m.flame.zoom, selected: m.flame.selected}
	if m.fleet != nil {
		o.of = m.fleet.shown
	}
	return o
}

// goTo opens the page that shows what a finding is about.
func goTo(m *Model, f *gvl.Finding) tea.Cmd {
	if f.Object != 0 {
		for _, l := range gvl.Locks(m.states) {
			if l.Object == f.Object {
				return openLock(m, &l)
			}
		}
	}
	for _, id := range f.Threads {
		if slices.ContainsFunc(m.threads, func(t threadRow) bool { return t.id == id }) {
			m.selected = rowKey{thread: id}
			return m.Open(pageThread)
		}
	}
	if label := codeOf(m.dict, f.Stack); label != "" {
		return openCode(m, label)
	}
	if strings.HasPrefix(f.ID, "gc_") || strings.HasPrefix(f.ID, "memory") {
		return m.Open(pageMemory)
	}
	return m.Open(pageThreads)
}

// openLock shows the locks with the cursor on one of them.
func openLock(m *Model, l *gvl.Contended) tea.Cmd {
	if p, ok := m.pages[pageLocks].(interface{ SelectLock(*gvl.Contended) }); ok {
		p.SelectLock(l)
	}
	return m.Open(pageLocks)
}

// openCode looks a function up in the flamegraph of all threads.
func openCode(m *Model, label string) tea.Cmd {
	m.flame.search = regexp.MustCompile("^" + regexp.QuoteMeta(label) + "$")
	m.flame.sought = m.flame.search
	m.flame.zoom, m.flame.top, m.focus = nil, 0, onFlame
	m.filter, m.selected, m.route = rowKey{}, rowKey{}, endpointKey{}
	cmd := m.Open(pageLive)
	m.flame.nextMatch(+1)
	m.Refresh()
	return cmd
}

// codeOf is the label of the innermost function of a stack that is written in Ruby; "" without one.
func codeOf(dict *sampler.Dictionary, stack sampler.StackID) string {
	if stack == 0 {
		return ""
	}
	p, _ := flamegraph.PlaceOf(dict, stack)
	return p.Method
}

// cameFrom reports whether esc leads back to where a finding or a route was chosen.
func (m *Model) cameFrom() bool { return m.came != nil && m.came.to == m.page }

// comeBack shows again what was on the screen when a finding or a route was chosen.
func comeBack(m *Model) tea.Cmd {
	c := m.came
	m.came = nil
	to := m
	if c.of != nil && c.of != m.fleet.shown {
		if err := m.fleet.open(c.of); err != nil {
			m.message.fail(err.Error())
			return nil
		}
		to = m.fleet.model(c.of)
	}
	to.page, to.threadFrom, to.over = c.page, c.threadFrom, c.over
	*to.selection, to.focus, to.flame.flameLook = c.selection, c.focus, c.look
	to.flame.zoom, to.flame.selected = c.zoom, c.selected
	to.Refresh()
	return to.wanted()
}

// backKeys lead back from what a finding or a route is about.
func backKeys() keyMap {
	return keyMap{title: "from a finding or a route", bindings: []binding{
		{keys: []string{"esc", "backspace"}, show: "esc", short: "back", always: true, help: "back to where it was chosen",
			do: on(comeBack)},
	}}
}
