package ui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/page/flame"
	"github.com/ddtop/ddtop/ui/page/live"
	"github.com/ddtop/ddtop/ui/page/locks"
	"github.com/ddtop/ddtop/ui/page/memory"
	"github.com/ddtop/ddtop/ui/page/processes"
	"github.com/ddtop/ddtop/ui/page/requests"
	"github.com/ddtop/ddtop/ui/page/thread"
	"github.com/ddtop/ddtop/ui/page/threads"
	"github.com/ddtop/ddtop/ui/page/timeline"
	"github.com/ddtop/ddtop/ui/page/top"
	"github.com/ddtop/ddtop/ui/page/waits"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// views are all views, in the order of their keys.
var views = []page.View{
	live.View,
	threads.View,
	thread.View,
	timeline.View,
	flame.View,
	top.View,
	locks.View,
	memory.View,
	processes.View,
	requests.View,
	waits.View,
}

// tabs returns the views that have a tab: the user can open them with a digit key.
func tabs(o scene.Offers) []page.View {
	return slices.DeleteFunc(slices.Clone(views), func(v page.View) bool { return v.Key == "" || v.Offered != nil && !v.Offered(o) })
}

// tabKeys returns the keys that lead to the views.
func tabKeys(o scene.Offers) []scene.Binding {
	tabs := tabs(o)
	out := make([]scene.Binding, 0, len(tabs))
	for i, t := range tabs {
		b := scene.Binding{Keys: []string{t.Key}, Show: t.Key, Help: string(t.ID) + ": " + t.Help, Do: func(h scene.Host) tea.Cmd { return h.Open(t.ID) }}
		// the live view has no line with the names of the views, so its footer has one hint for all these keys
		if i == 0 {
			b.Footer, b.Short, b.Always = "1-"+tabs[len(tabs)-1].Key, "views", true
			b.When = func(h scene.Host) bool { return h.Showing().Page == scene.PageLive }
		}
		out = append(out, b)
	}
	return out
}

// newPages makes the pages of a screen.
func newPages(c *widget.Parts) map[scene.PageID]page.Page {
	pages := make(map[scene.PageID]page.Page, len(views))
	for _, v := range views {
		if v.Make != nil {
			pages[v.ID] = v.Make(c)
		}
	}
	return pages
}

// current returns the page that fills the screen.
func (m *Model) current() page.Page { return m.pages[m.Page] }

// fetch returns the command that reads data which the shown page still needs. It is nil if the page needs no data.
// While the memory grows, fetch also counts the heap for the page of memory, even if another page is shown.
func (m *Model) fetch() tea.Cmd {
	if m.Page != scene.PageMemory {
		if cmd := m.pages[scene.PageMemory].(page.Fetching).Fetch(m); cmd != nil {
			return tea.Batch(cmd, m.fetchCurrent())
		}
	}
	return m.fetchCurrent()
}

func (m *Model) fetchCurrent() tea.Cmd {
	if p, ok := m.current().(page.Fetching); ok {
		return p.Fetch(m)
	}
	return nil
}

// hasFlame reports whether the present screen has the flamegraph.
func hasFlame(m *Model) bool { return m.Page == scene.PageLive || m.Page == scene.PageFlame }

// maps returns the keys that work now. The keys of the shown view come first.
func (m *Model) maps() []*scene.KeyMap {
	if m.over.What != widget.NoOverlay {
		return []*scene.KeyMap{&m.overKeys[m.over.What], &m.front}
	}
	var out []*scene.KeyMap
	if cameFrom(m) {
		out = append(out, &m.backKeys)
	}
	if m.Below > 0 {
		out = append(out, &m.belowKeys)
	}
	out = append(out, m.current().Keys(&m.Scene, false)...)
	return append(append(out, mapsBeside(m, m.Page)...), &m.keys)
}

// mapsBeside returns the keys of a view that do not belong to this view alone, because several views share them.
func mapsBeside(m *Model, id scene.PageID) []*scene.KeyMap {
	for i := range views {
		if views[i].ID == id {
			switch views[i].Shared {
			case page.WeightsShared:
				return []*scene.KeyMap{&m.weightKeys}
			case page.SearchShared:
				if p, ok := m.pages[id].(page.Parted); ok && !p.Lists() {
					return nil
				}
				return []*scene.KeyMap{&m.searchKeys}
			}
		}
	}
	return nil
}

// setKeys sets the keys that work everywhere.
func setKeys(m *Model, o scene.Offers) {
	m.Offers, m.keys = o, globalKeys(o)
	m.front.Bindings = slices.DeleteFunc(slices.Clone(m.keys.Bindings), func(b scene.Binding) bool { return !slices.Contains(overKeys, b.Keys[0]) })
}

// helpMaps returns the keys that the help explains: the keys of the present screen. If the same key has two meanings,
// helpMaps leaves out the meaning that has no effect.
func helpMaps(m *Model) []scene.KeyMap {
	own := m.current().Keys(&m.Scene, true)
	maps := own
	if cameFrom(m) && len(own) == 1 {
		maps = append([]*scene.KeyMap{&m.backKeys}, own...)
	}
	if m.Below > 0 {
		maps = append(slices.Clone(maps), &m.belowKeys)
	}
	out := scene.OfFirst(slices.Concat(maps, mapsBeside(m, m.Page), []*scene.KeyMap{&m.keys}))
	if len(own) > 1 { // only one part of the page gets the keys at a time
		for i := range own {
			out[i] = *own[i]
		}
	}
	out = append(out[len(out)-1:], out[:len(out)-1]...)
	if len(m.Opt.Keys) > 0 {
		out = append(out, aliasHelp(m))
	}
	return out
}

// pageArea returns the area of the shown page. Above this area is a line with the views' names (the rule), except in
// the live view.
func pageArea(m *Model) canvas.Area {
	if m.Page == scene.PageLive {
		return m.grid.Area()
	}
	return m.grid.Area().Sub(0, m.Regions.Axis+1, m.Width, m.BodyRows())
}

// drawPage draws a line with the views' names (the rule), and the page under it.
func drawPage(m *Model) {
	p, a := m.current(), pageArea(m)
	if m.Page != scene.PageLive {
		drawTabs(m, m.grid.Area().Row(m.Regions.Axis), p)
		if m.LastNS == 0 {
			a.Put(3, a.H/2, "nothing measured yet", m.Theme.Dimmed())
			return
		}
	}
	p.Draw(a, &m.Scene)
}

// namesBeforeCaption is a width of a screen. If the screen is at least this wide, the views' names are kept, even if
// the end of the caption does not fit. On narrower screens the whole caption is more important than the names.
const namesBeforeCaption = 120

// drawTabs draws a line with the names of the views and the caption of the view that is shown. If there is no room for
// both, it draws the keys of the other views instead of their names. On wide screens (namesBeforeCaption), it keeps the
// names if at least the first part of the caption fits. It then leaves out later parts of the caption that do not fit.
func drawTabs(m *Model, a canvas.Area, p page.Page) {
	t := &m.Theme
	a.Fill('─', t.Rule())
	about := p.About(&m.Scene)
	if a.W >= namesBeforeCaption {
		about, _, _ = strings.Cut(about, style.Between)
	}
	x, names := 2, 3
	for _, tb := range tabs(m.Offers) {
		names += canvas.Width(tb.Key+string(tb.ID)) + 2
	}
	for _, tb := range tabs(m.Offers) {
		st, text := t.Dimmed(), " "+tb.Key+" "+string(tb.ID)
		if tb.ID == m.Page || tb.ID == scene.PageThreads && m.Page == scene.PageThread {
			st = canvas.Style{FG: t.Accent, Attr: canvas.Bold | canvas.Reverse}
			text += " "
		} else if names+canvas.Width(about)+4 > a.W {
			text = " " + tb.Key
		}
		from := x
		x = a.Put(x, 0, text, st)
		m.OnPress(a.Sub(from, 0, x-from, 1), func(h scene.Host, _, _ int) tea.Cmd { return h.Open(tb.ID) })
	}
	x = a.Put(x, 0, "─", t.Rule())
	a.Put(x, 0, " "+canvas.Cut(style.FitParts(p.About(&m.Scene), a.W-x-3), a.W-x-3)+" ", t.Plain())
}

// binding returns the action that a key has now. It is nil if the key has none.
func (m *Model) binding(key string) *scene.Binding {
	for _, k := range m.maps() {
		if b := k.Find(key); b != nil {
			return b
		}
	}
	return nil
}
