package ui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
)

// pageID is the view that fills the screen under the head lines.
type pageID uint8

const (
	pageLive pageID = iota // timeline and flamegraph together
	pageThreads
	pageThread // one thread; enter leads there
	pageTimeline
	pageFlame
	pageTop
	pageLocks
	pageMemory
	pageRequests
	pageWaits
	pageProcesses // nil where there is one process
	numPages
)

// page is a view that fills the screen. What it keeps of a person's choices survives a change of pages.
type page interface {
	keyMap() *keyMap
	// load takes what the view shows from the store, which is held meanwhile. What Model holds for all views (threads,
	// states, figures, weights) is loaded before.
	load(sc *scene, r *store.Reading)
	// about says in the rule above the view what it shows.
	about(sc *scene) string
	draw(a canvas.Area, sc *scene)
	// detail describes what is selected; without a name, rest says how to select something.
	detail(sc *scene) (name, rest string)
}

// fetching is a page that lacks something that takes a while to read: fetch returns the command, which may be nil, and take
// gets the messages of all such commands.
type fetching interface {
	fetch(m *Model) tea.Cmd
	take(m *Model, msg tea.Msg)
}

// timed is a page with a time axis, on which the mouse selects a stretch of time. a is the screen under the rule above the page,
// that of the live view all of it.
type timed interface {
	axisArea(a canvas.Area, sc *scene) canvas.Area
}

// wheeled is a page in which the wheel can do something else than the arrow keys; done is false where it does not.
type wheeled interface {
	wheel(m *Model, x, y, d int, onAxis bool) (cmd tea.Cmd, done bool)
}

// tab is a page that a digit leads to.
type tab struct {
	id                pageID
	key, name, helped string
}

var tabs = [...]tab{
	{pageLive, "1", "live", "timeline and flamegraph"},
	{pageThreads, "2", "threads", "the table of threads; enter opens one with its stack and source"},
	{pageTimeline, "3", "timeline", "the timeline over the whole screen, with a cursor; GC, CPU and waiting on its axis"},
	{pageFlame, "4", "flame", "the flamegraph over the whole screen"},
	{pageTop, "5", "top", "functions, lines, gems, files by self, total and blame"},
	{pageLocks, "6", "locks", "deadlocks, locks with their holders, and whose code makes others wait for the GVL"},
	{pageMemory, "7", "memory", "memory and GC: how they went, the collector's figures, and whose code paid for it"},
	{pageProcesses, "8", "processes", "a row a process; all of them in one flamegraph; enter opens one"},
	{pageRequests, "9", "requests", "who is served: requests and jobs in progress, and routes with what their time goes to"},
	{pageWaits, "0", "waits", "every wait for the GVL: how long, behind whom, and the lengths of all"},
}

// offers says which views there are that not every process has: that of processes where there are several, that of requests once
// one or a job was seen.
type offers struct{ processes, requests bool }

// tabs are the views there are.
func (o offers) tabs() []tab {
	return slices.DeleteFunc(slices.Clone(tabs[:]), func(t tab) bool {
		return t.id == pageProcesses && !o.processes || t.id == pageRequests && !o.requests
	})
}

// tabKeys are the keys that lead to the views.
func (o offers) tabKeys() []binding {
	tabs := o.tabs()
	out := make([]binding, 0, len(tabs))
	for i, t := range tabs {
		b := binding{keys: []string{t.key}, show: t.key, help: t.name + ": " + t.helped, do: func(m *Model) tea.Cmd { return m.open(t.id) }}
		if i == 0 { // the footer names them in one, where the line with their names is not on the screen
			b.footer, b.short, b.always = "1-"+tabs[len(tabs)-1].key, "views", true
			b.when = func(m *Model) bool { return m.page == pageLive }
		}
		out = append(out, b)
	}
	return out
}

// components are what several views are made of. A page gets those that it shows.
type components struct {
	timeline timelineView
	flame    flameView
	panel    panelView
	whereNow nowView
}

func newComponents(s *selection) *components {
	c := &components{timeline: newTimelineView(s)}
	c.whereNow.flame = &c.flame
	c.panel.flame, c.panel.timeline, c.panel.now = &c.flame, &c.timeline, &c.whereNow
	return c
}

func newPages(c *components) [numPages]page {
	return [numPages]page{pageLive: newLivePage(c), pageThreads: newThreadsPage(c.timeline.selection, &c.whereNow), pageThread: newThreadPage(&c.flame),
		pageTimeline: newTimelinePage(&c.timeline, &c.whereNow), pageFlame: newFlamePage(&c.flame, &c.panel), pageTop: newTopPage(&c.flame),
		pageLocks: newLocksPage(&c.flame), pageMemory: newMemoryPage(), pageWaits: newWaitsPage(&c.flame), pageRequests: newRequestsPage(&c.flame, &c.whereNow)}
}

// current is the page that fills the screen.
func (m *Model) current() page { return m.pages[m.page] }

// open shows a page.
func (m *Model) open(id pageID) tea.Cmd {
	if id == pageThread && m.page != pageThread {
		m.threadFrom = m.page
	}
	m.page, m.came = id, nil
	if id == pageLive && m.filter != (rowKey{}) && m.filter != m.selected { // another was selected meanwhile
		m.filter, m.flame.zoom, m.flame.top = m.selected, nil, 0
	}
	m.refresh()
	return m.wanted()
}

// wanted returns the command that fetches what the page lacks; nil when it lacks nothing.
func (m *Model) wanted() tea.Cmd {
	if p, ok := m.current().(fetching); ok {
		return p.fetch(m)
	}
	return nil
}

// hasFlame reports whether the flamegraph is on the screen.
func (m *Model) hasFlame() bool { return m.page == pageLive || m.page == pageFlame }

// maps are the keys that work now, those of the view first.
func (m *Model) maps() []*keyMap {
	if m.over.what != noOverlay {
		return []*keyMap{&m.overKeys[m.over.what], &m.front}
	}
	var out []*keyMap
	if m.cameFrom() {
		out = append(out, &m.backKeys)
	}
	out = append(out, m.current().keyMap())
	return append(append(out, m.mapsBeside(m.page)...), &m.keys)
}

// mapsBeside are the keys of a view that it has together with others.
func (m *Model) mapsBeside(id pageID) []*keyMap {
	switch id {
	case pageLive, pageFlame:
		return []*keyMap{&m.weightKeys}
	case pageThreads, pageTimeline, pageTop, pageLocks, pageRequests, pageWaits:
		return []*keyMap{&m.searchKeys}
	}
	return nil
}

// setKeys gives the keys that work everywhere.
func (m *Model) setKeys(o offers) {
	m.offers, m.keys = o, globalKeys(o)
	m.front.bindings = slices.DeleteFunc(slices.Clone(m.keys.bindings), func(b binding) bool { return !slices.Contains(overKeys, b.keys[0]) })
}

// helpMaps are the keys that the help explains: those of what is on the screen, without what another of its keys takes the place
// of.
func (m *Model) helpMaps() []keyMap {
	maps := []*keyMap{m.current().keyMap()}
	if m.cameFrom() {
		maps = append([]*keyMap{&m.backKeys}, maps...)
	}
	if m.page == pageLive {
		maps = []*keyMap{&m.live.keys[onTimeline], &m.live.keys[onFlame]}
	}
	maps = append(append(maps, m.mapsBeside(m.page)...), &m.keys)
	out := ofFirst(maps)
	if m.page == pageLive { // one of the two has the keys at a time
		out[0], out[1] = *maps[0], *maps[1]
	}
	out = append(out[len(out)-1:], out[:len(out)-1]...)
	if len(m.opt.Keys) > 0 {
		out = append(out, m.aliasHelp())
	}
	return out
}

// bodyRows is the height of a page.
func (sc *scene) bodyRows() int { return sc.regions.detail - sc.regions.axis - 1 }

// pageArea is the area of the page that is shown: the live view has the rows of the rule, too.
func (m *Model) pageArea() canvas.Area {
	if m.page == pageLive {
		return m.grid.Area()
	}
	return m.grid.Area().Sub(0, m.regions.axis+1, m.width, m.bodyRows())
}

// drawPage draws the rule with the views' names and the page under it.
func (m *Model) drawPage() {
	p, a := m.current(), m.pageArea()
	if m.page != pageLive {
		m.drawTabs(m.grid.Area().Row(m.regions.axis), p)
		if m.lastNS == 0 {
			a.Put(3, a.H/2, "nothing measured yet", m.Theme.Dimmed())
			return
		}
	}
	p.draw(a, &m.scene)
}

// drawTabs draws the rule with the views' names and what the one shown shows. Where both have no room, the other views are
// their keys alone: what is shown must be readable.
func (m *Model) drawTabs(a canvas.Area, p page) {
	t := &m.Theme
	a.Fill('─', t.Rule())
	about := " " + p.about(&m.scene) + " "
	x, names := 2, 3
	for _, tb := range m.offers.tabs() {
		names += canvas.Width(tb.key+tb.name) + 3
	}
	for _, tb := range m.offers.tabs() {
		st, text := t.Dimmed(), " "+tb.key+" "+tb.name+" "
		if tb.id == m.page || tb.id == pageThreads && m.page == pageThread {
			st = canvas.Style{FG: t.Accent, Attr: canvas.Bold | canvas.Reverse}
		} else if names+canvas.Width(about) >= a.W {
			text = " " + tb.key
		}
		from := x
		x = a.Put(x, 0, text, st)
		m.onPress(a.Sub(from, 0, x-from, 1), func(m *Model, _, _ int) tea.Cmd { return m.open(tb.id) })
	}
	x = a.Put(x, 0, "─", t.Rule())
	a.Put(x, 0, " "+canvas.Cut(fitParts(p.about(&m.scene), a.W-x-3), a.W-x-3)+" ", t.Plain())
}

// between separates the parts of a line that says what is shown.
const between = " · "

// fitParts leaves out the last parts of a line that have no room.
func fitParts(s string, w int) string {
	for canvas.Width(s) > w {
		i := strings.LastIndex(s, between)
		if i < 0 {
			break
		}
		s = s[:i]
	}
	return s
}

// binding returns what a key does now; nil: nothing.
func (m *Model) binding(key string) *binding {
	for _, k := range m.maps() {
		if b := k.find(key); b != nil {
			return b
		}
	}
	return nil
}
