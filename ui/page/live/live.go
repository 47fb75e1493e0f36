package live

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// View registers the page.
var View = page.View{
	ID:     scene.PageLive,
	Key:    "1",
	Help:   "timeline and flamegraph",
	Shared: page.WeightsShared,
	Make:   page.Makes(New),
}

// Page has the timeline and the flamegraph on one screen. A selection in one of them changes what the other shows. The
// page takes the whole screen below the first lines. At its top it has a time axis, where other views have a line with
// the names of the views.
type Page struct {
	*widget.Parts
	keyMaps [2]scene.KeyMap // the keys for each focus: on the timeline or on the flamegraph
}

func New(c *widget.Parts) *Page {
	p := &Page{Parts: c}
	tab := func(to string) scene.Binding {
		return scene.Binding{Keys: []string{"tab", "shift+tab"}, Show: "tab", Short: to, Help: "move between timeline and flamegraph",
			Do: func(h scene.Host) tea.Cmd { p.switchFocus(h); return nil }}
	}
	flame := widget.FlameKeys(&c.Flame)
	flame.Bindings = slices.Insert(flame.Bindings, 1, tab("timeline"))
	p.keyMaps = [2]scene.KeyMap{p.timelineKeys(tab("flamegraph")), flame}
	return p
}

func (p *Page) timelineKeys(tab scene.Binding) scene.KeyMap {
	selecting := func(h scene.Host, by widget.Step) tea.Cmd {
		p.selectThread(h, func(v *widget.Timeline) { v.Move(by) })
		return nil
	}
	expanding := func(open bool) func(scene.Host) tea.Cmd {
		return func(h scene.Host) tea.Cmd {
			p.selectThread(h, func(v *widget.Timeline) { v.Expand(open) })
			return nil
		}
	}
	return scene.KeyMap{Title: "timeline", Bindings: slices.Concat([]scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "open", Help: "open the thread with its stack, source and waits, or open the group",
			Do: func(h scene.Host) tea.Cmd {
				if p.Timeline.Index() < 0 {
					return selecting(h, widget.Step{Rows: +1})
				}
				return p.Timeline.OpenSelected(h)
			}},
		tab,
	}, widget.CursorKeys("", "select a thread or group, for the flamegraph too", selecting), []scene.Binding{
		{Keys: []string{"right", "l"}, Show: "→ ←", Short: "", Help: "open and close a group (also l, h)", Do: expanding(true)},
		{Keys: []string{"left", "h"}, Do: expanding(false)},
	})}
}

func (p *Page) Keys(sc *scene.Scene, all bool) []*scene.KeyMap {
	if all {
		return []*scene.KeyMap{&p.keyMaps[scene.OnTimeline], &p.keyMaps[scene.OnFlame]}
	}
	return []*scene.KeyMap{&p.keyMaps[sc.Focus]}
}

// selectThread calls move to change the selection in the timeline. After that, the flamegraph below the timeline shows
// only the selected thread or group.
func (p *Page) selectThread(h scene.Host, move func(*widget.Timeline)) {
	move(&p.Timeline)
	if s := p.Chosen; s.Filter != s.Selected {
		s.Filter = s.Selected
		p.Flame.Zoom, p.Flame.Top = nil, 0
	}
	h.Refresh()
}

func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	p.Timeline.LoadCells(sc, r, sc.Cells, sc.Regions.RowCount)
}

func (p *Page) About(*scene.Scene) string { return "" }

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
	r, t := &sc.Regions, &sc.Theme
	p.Timeline.DrawAxis(a.Row(r.Axis), t, r, sc.Focus == scene.OnTimeline, sc.NowWord(), sc.NowWord())
	p.Timeline.DrawNotes(a.Sub(r.CellsX, r.Axis, r.CellsW, 1), sc.Notes, t)
	rows := a.Sub(0, r.Rows, sc.Width, r.RowCount)
	p.Timeline.Draw(rows, a.Sub(0, r.Lanes, sc.Width, r.LaneCount), t, r, sc.Focus == scene.OnTimeline, sc.Opt.ASCII)
	sc.OnPress(rows, p.pressRow)
	sc.DrawDrag(p.AxisArea(a, sc))
	if r.Legend > 0 {
		style.DrawLegend(a.Row(r.Legend), t, sc.Opt.ASCII)
	}
	p.Flame.DrawRule(a.Row(r.Rule), t, sc.Focus == scene.OnFlame, sc.When())
	high := p.Panel.FlameRows(sc)
	flame := a.Sub(0, r.Flame, sc.Width, high)
	p.Flame.Draw(flame, t, sc.Focus == scene.OnFlame, !sc.Opt.NoColor)
	sc.OnPress(flame, func(h scene.Host, x, y int) tea.Cmd {
		h.Showing().Focus = scene.OnFlame
		p.Flame.SelectAt(x, y, high)
		h.Refresh()
		return nil
	})
	p.Panel.Draw(a.Sub(0, r.Flame+high, sc.Width, p.Panel.Rows), sc)
}

func (p *Page) AxisArea(a canvas.Area, sc *scene.Scene) canvas.Area {
	r := &sc.Regions
	return a.Sub(r.CellsX, r.Axis, r.CellsW, r.Lanes+r.LaneCount-r.Axis)
}

// pressRow handles a click on a row of the timeline: it selects the row. A click on the sign in front of a group opens
// or closes the group.
func (p *Page) pressRow(h scene.Host, x, y int) tea.Cmd {
	if y >= len(p.Timeline.Visible) {
		return nil
	}
	w := &p.Timeline.Visible[y]
	h.Showing().Focus = scene.OnTimeline
	p.selectThread(h, func(v *widget.Timeline) {
		v.Selected = w.Key
		if w.IsGroup && x <= widget.GroupSign {
			v.Expand(!w.Open)
		}
	})
	return nil
}

func (p *Page) Wheel(h scene.Host, _, y, d int, onAxis bool) (tea.Cmd, bool) {
	switch {
	case onAxis:
		h.Showing().Zoom(d)
		h.Refresh()
	case y >= h.Showing().Regions.Rule:
		p.Flame.ScrollBy(d) // Refresh limits the scrolling and keeps the selection visible
		h.Refresh()
	default:
		p.selectThread(h, func(v *widget.Timeline) { v.Move(widget.Step{Rows: d}) })
	}
	return nil, true
}

func (p *Page) Detail(sc *scene.Scene) (name, rest string) {
	if sc.Focus == scene.OnFlame {
		if name, rest = p.Flame.Detail(sc.Dict); name == "" {
			rest = "↑ ↓ ← → select a frame   enter zooms in"
		}
		return name, rest
	}
	if name, rest = p.Timeline.Detail(sc); name == "" {
		rest = "↑ ↓ select a thread   the flamegraph shows it alone"
		if len(p.Timeline.Idents.Numbers) > 0 {
			rest += "   the sign before a name: this thread in the row of the GVL"
		}
	}
	return name, rest
}

func (p *Page) Stack(sc *scene.Scene) (string, []string) {
	if sc.Focus == scene.OnFlame {
		return p.Flame.Stack()
	}
	return sc.ThreadStack(p.Timeline.Chosen())
}

// switchFocus moves the focus from the timeline to the flamegraph, or back. The part with the focus gets the user's
// keys.
func (p *Page) switchFocus(h scene.Host) {
	sc := h.Showing()
	if sc.Focus = scene.OnFlame - sc.Focus; sc.Focus == scene.OnFlame {
		p.Flame.First()
	}
	h.Refresh()
}
