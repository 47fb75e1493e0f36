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
	sc.onPress(a, func(m *Model, _, _ int) tea.Cmd { return m.goToFinding(id) })
}

// moreFindings makes a click on "+2 more: !" at the end of a row open the list of all.
func moreFindings(sc *scene, row canvas.Area, n int) {
	w := canvas.Width(moreText(n)) + 1
	sc.onPress(row.Sub(row.W-w, 0, w, 1), func(m *Model, _, _ int) tea.Cmd { m.over = overlay{what: findingsOverlay}; return nil })
}

// allFindings are those of the screen's head: of the process that is shown, on view 8 of all.
func (m *Model) allFindings() findingsView {
	if m.page == pageProcesses {
		return m.fleet.page.worst(&m.scene)
	}
	return m.findings
}

// moveFinding selects another finding. One that is longer than the screen is scrolled through first.
func (m *Model) moveFinding(by step) tea.Cmd {
	o, v := &m.over, m.allFindings()
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
func (m *Model) goToFinding(id findingID) tea.Cmd {
	v := m.allFindings()
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
		to = id.of.model
		to.refresh() // its threads are needed to tell which are still there
	}
	m.over = overlay{}
	cmd := to.goTo(&f)
	from.to, to.came = to.page, &from
	to.refresh()
	return cmd
}

// origin is what is on the screen.
func (m *Model) origin() origin {
	o := origin{page: m.page, threadFrom: m.threadFrom, over: m.over, selection: *m.selection, focus: m.live.focus,
		look: m.flame.flameLook, zoom: m.flame.zoom, selected: m.flame.selected}
	if m.fleet != nil {
		o.of = m.fleet.shown
	}
	return o
}

// goTo opens the page that shows what a finding is about.
func (m *Model) goTo(f *gvl.Finding) tea.Cmd {
	if f.Object != 0 {
		for _, l := range gvl.Locks(m.states) {
			if l.Object == f.Object {
				return m.openLock(&l)
			}
		}
	}
	for _, id := range f.Threads {
		if slices.ContainsFunc(m.threads, func(t threadRow) bool { return t.id == id }) {
			m.selected = rowKey{thread: id}
			return m.open(pageThread)
		}
	}
	if label := codeOf(m.dict, f.Stack); label != "" {
		return m.openCode(label)
	}
	if strings.HasPrefix(f.ID, "gc_") || strings.HasPrefix(f.ID, "memory") {
		return m.open(pageMemory)
	}
	return m.open(pageThreads)
}

// openLock shows the locks with the cursor on one of them.
func (m *Model) openLock(l *gvl.Contended) tea.Cmd {
	*m.pages[pageLocks].(*locksPage).both.cursor = lockRow{Contended: l}.id()
	return m.open(pageLocks)
}

// openCode looks a function up in the flamegraph of all threads.
func (m *Model) openCode(label string) tea.Cmd {
	m.flame.search = regexp.MustCompile("^" + regexp.QuoteMeta(label) + "$")
	m.flame.sought = m.flame.search
	m.flame.zoom, m.flame.top, m.live.focus = nil, 0, onFlame
	m.filter, m.selected, m.route = rowKey{}, rowKey{}, endpointKey{}
	cmd := m.open(pageLive)
	m.flame.nextMatch(+1)
	m.refresh()
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
func (m *Model) comeBack() tea.Cmd {
	c := m.came
	m.came = nil
	to := m
	if c.of != nil && c.of != m.fleet.shown {
		if err := m.fleet.open(c.of); err != nil {
			m.message.fail(err.Error())
			return nil
		}
		to = c.of.model
	}
	to.page, to.threadFrom, to.over = c.page, c.threadFrom, c.over
	*to.selection, to.live.focus, to.flame.flameLook = c.selection, c.focus, c.look
	to.flame.zoom, to.flame.selected = c.zoom, c.selected
	to.refresh()
	return to.wanted()
}

// backKeys lead back from what a finding or a route is about.
func backKeys() keyMap {
	return keyMap{title: "from a finding or a route", bindings: []binding{
		{keys: []string{"esc", "backspace"}, show: "esc", short: "back", always: true, help: "back to where it was chosen",
			do: (*Model).comeBack},
	}}
}
