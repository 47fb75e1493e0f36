package ui

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// view registers a page.
type view struct {
	id pageID
	// key leads to the page. It is empty for a page that only other pages lead to.
	key    string
	helped string // what the page shows, in the help
	shared sharedKeys
	// offered reports whether a process has the view. It is nil if every process has it.
	offered func(o offers) bool
	// make returns the page, or nil if something else makes it.
	make func(c *components) page
}

// makes is a constructor of a page as views want it.
func makes[P page](construct func(*components) P) func(*components) page {
	return func(c *components) page { return construct(c) }
}

// views are all views, in the order of their keys.
var views = []view{
	{id: pageLive, key: "1", helped: "timeline and flamegraph", shared: weightsShared, make: makes(newLivePage)},
	{id: pageThreads, key: "2", helped: "the table of threads; enter opens one with its stack and source", shared: searchShared, make: makes(newThreadsPage)},
	{id: pageThread, make: makes(newThreadPage)},
	{id: pageTimeline, key: "3", helped: "the timeline over the whole screen, with a cursor; GC, CPU and waiting on its axis", shared: searchShared, make: makes(newTimelinePage)},
	{id: pageFlame, key: "4", helped: "the flamegraph over the whole screen", shared: weightsShared, make: makes(newFlamePage)},
	{id: pageTop, key: "5", helped: "functions, lines, gems, files by self, total and blame", shared: searchShared, make: makes(newTopPage)},
	{id: pageLocks, key: "6", helped: "deadlocks, locks with their holders, and whose code makes others wait for the GVL", shared: searchShared, make: makes(newLocksPage)},
	{id: pageMemory, key: "7", helped: "memory and GC: how they went, the collector's figures, and whose code paid for it", make: makes(newMemoryPage)},
	{id: pageProcesses, key: "8", helped: "a row a process; all of them in one flamegraph; enter opens one", offered: func(o offers) bool { return o.processes }},
	{id: pageRequests, key: "9", helped: "who is served: requests and jobs in progress, and routes with what their time goes to", shared: searchShared,
		offered: func(o offers) bool { return o.requests }, make: makes(newRequestsPage)},
	{id: pageWaits, key: "0", helped: "every wait for the GVL: how long, behind whom, and the lengths of all", shared: searchShared, make: makes(newWaitsPage)},
}

// tabs are the views that a digit leads to.
func tabs(o offers) []view {
	return slices.DeleteFunc(slices.Clone(views), func(v view) bool { return v.key == "" || v.offered != nil && !v.offered(o) })
}

// tabKeys are the keys that lead to the views.
func tabKeys(o offers) []binding {
	tabs := tabs(o)
	out := make([]binding, 0, len(tabs))
	for i, t := range tabs {
		b := binding{keys: []string{t.key}, show: t.key, help: string(t.id) + ": " + t.helped, do: func(h Host) tea.Cmd { return h.Open(t.id) }}
		if i == 0 { // the footer names them in one, where the line with their names is not on the screen
			b.footer, b.short, b.always = "1-"+tabs[len(tabs)-1].key, "views", true
			b.when = func(h Host) bool { return h.Scene().page == pageLive }
		}
		out = append(out, b)
	}
	return out
}

// newPages makes the pages of a screen.
func newPages(c *components) map[pageID]page {
	pages := make(map[pageID]page, len(views))
	for _, v := range views {
		if v.make != nil {
			pages[v.id] = v.make(c)
		}
	}
	return pages
}

// current is the page that fills the screen.
func (m *Model) current() page { return m.pages[m.page] }

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
	out = append(out, m.current().keys(&m.scene, false)...)
	return append(append(out, mapsBeside(m, m.page)...), &m.keys)
}

// mapsBeside are the keys of a view that it has together with others.
func mapsBeside(m *Model, id pageID) []*keyMap {
	for i := range views {
		if views[i].id == id {
			switch views[i].shared {
			case weightsShared:
				return []*keyMap{&m.weightKeys}
			case searchShared:
				return []*keyMap{&m.searchKeys}
			}
		}
	}
	return nil
}

// setKeys gives the keys that work everywhere.
func setKeys(m *Model, o offers) {
	m.offers, m.keys = o, globalKeys(o)
	m.front.bindings = slices.DeleteFunc(slices.Clone(m.keys.bindings), func(b binding) bool { return !slices.Contains(overKeys, b.keys[0]) })
}

// helpMaps are the keys that the help explains: those of what is on the screen, without what another of its keys takes the place
// of.
func helpMaps(m *Model) []keyMap {
	own := m.current().keys(&m.scene, true)
	maps := own
	if m.cameFrom() && len(own) == 1 {
		maps = append([]*keyMap{&m.backKeys}, own...)
	}
	out := ofFirst(slices.Concat(maps, mapsBeside(m, m.page), []*keyMap{&m.keys}))
	if len(own) > 1 { // one of them has the keys at a time
		for i := range own {
			out[i] = *own[i]
		}
	}
	out = append(out[len(out)-1:], out[:len(out)-1]...)
	if len(m.opt.Keys) > 0 {
		out = append(out, aliasHelp(m))
	}
	return out
}

// pageArea is the area of the page that is shown: the live view has the rows of the rule, too.
func pageArea(m *Model) canvas.Area {
	if m.page == pageLive {
		return m.grid.Area()
	}
	return m.grid.Area().Sub(0, m.regions.axis+1, m.width, m.bodyRows())
}

// drawPage draws the rule with the views' names and the page under it.
func drawPage(m *Model) {
	p, a := m.current(), pageArea(m)
	if m.page != pageLive {
		drawTabs(m, m.grid.Area().Row(m.regions.axis), p)
		if m.lastNS == 0 {
			a.Put(3, a.H/2, "nothing measured yet", m.Theme.Dimmed())
			return
		}
	}
	p.draw(a, &m.scene)
}

// drawTabs draws the rule with the views' names and what the one shown shows. Where both have no room, the other views are
// their keys alone: what is shown must be readable.
func drawTabs(m *Model, a canvas.Area, p page) {
	t := &m.Theme
	a.Fill('─', t.Rule())
	about := " " + p.about(&m.scene) + " "
	x, names := 2, 3
	for _, tb := range tabs(m.offers) {
		names += canvas.Width(tb.key+string(tb.id)) + 3
	}
	for _, tb := range tabs(m.offers) {
		st, text := t.Dimmed(), " "+tb.key+" "+string(tb.id)+" "
		if tb.id == m.page || tb.id == pageThreads && m.page == pageThread {
			st = canvas.Style{FG: t.Accent, Attr: canvas.Bold | canvas.Reverse}
		} else if names+canvas.Width(about) >= a.W {
			text = " " + tb.key
		}
		from := x
		x = a.Put(x, 0, text, st)
		m.onPress(a.Sub(from, 0, x-from, 1), func(h Host, _, _ int) tea.Cmd { return h.Open(tb.id) })
	}
	x = a.Put(x, 0, "─", t.Rule())
	a.Put(x, 0, " "+canvas.Cut(fitParts(p.about(&m.scene), a.W-x-3), a.W-x-3)+" ", t.Plain())
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
