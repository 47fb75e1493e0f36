package threads

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// threadColumns returns the columns of the table of threads.
func threadColumns() []widget.Column[*TableRow] {
	onlyWide := widget.Wide(0, 160, 5)
	percent := func(n int, s gvl.State) func(*TableRow, *scene.Scene) (string, canvas.Style) {
		return func(w *TableRow, sc *scene.Scene) (string, canvas.Style) {
			if w.fiber != nil {
				return "", sc.Theme.Faded()
			}
			if !sc.Figures.Enough(sampler.FigureStates) {
				return "–", sc.Theme.Faded()
			}
			p := w.percents()[n]
			if p == 0 {
				return "0 %", sc.Theme.Faded()
			}
			return fmt.Sprintf("%d %%", p), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[s])}
		}
	}
	byPart := func(states ...gvl.State) func(x, y *TableRow) int {
		return func(x, y *TableRow) int { return cmp.Compare(y.part(states...), x.part(states...)) }
	}
	return []widget.Column[*TableRow]{
		{Title: "  thread", Width: widget.Wide(12, 80, 14, scene.WideWidth, 20, 160, 24), Draw: drawTreeName, Order: "name",
			Compare: func(x, y *TableRow) int { return strings.Compare(x.Name, y.Name) }},
		{Title: "now", Width: widget.Wide(16, scene.WideWidth, 17), Draw: drawState, Order: "state",
			Compare: func(x, y *TableRow) int { return cmp.Compare(x.urgent, y.urgent) }},
		{Title: "states", Width: widget.Wide(9, 80, 14, scene.WideWidth, 24, 160, 30), Bare: true,
			Draw: func(a canvas.Area, w *TableRow, sc *scene.Scene) {
				switch {
				case w.fiber != nil:
				case sc.Figures.Enough(sampler.FigureStates):
					sc.Theme.DrawStates(a, &w.Totals, sc.Opt.ASCII)
				default:
					a.Put(0, 0, "–", sc.Theme.Faded())
				}
			}},
		{Title: "run", Width: onlyWide, Right: true, Text: percent(0, gvl.Running), Order: "run",
			Compare: byPart(gvl.Running, gvl.Stalled, gvl.GC)},
		{Title: "wait", Width: onlyWide, Right: true, Text: percent(1, gvl.Waiting), Order: "wait", Compare: byPart(gvl.Waiting)},
		{Title: "io", Width: onlyWide, Right: true, Text: percent(2, gvl.IO), Order: "io", Compare: byPart(gvl.IO)},
		{Title: "CPU", Width: widget.Wide(5, scene.WideWidth, 6), Right: true, Order: "CPU",
			Text: func(w *TableRow, sc *scene.Scene) (string, canvas.Style) {
				if w.fiber != nil {
					return "", sc.Theme.Plain()
				}
				return units.Percent(w.CPU), sc.Theme.Plain()
			},
			Compare: func(x, y *TableRow) int { return cmp.Compare(y.CPU, x.CPU) }},
		{Title: "p99", Width: widget.Wide(8, scene.WideWidth, 9), Right: true, Order: "waits p99", Text: p99Text,
			Compare: func(x, y *TableRow) int { return cmp.Compare(y.p99NS, x.p99NS) }},
		{Title: "current frame", Width: widget.Wide(widget.Rest), Least: 8, Draw: drawFrame},
		{Title: "detail", Width: widget.Wide(0, 160, widget.Rest), Text: detailText},
	}
}

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
	p.Table.Draw(a, sc, true, func(h scene.Host, w *TableRow, x int) tea.Cmd {
		p.choose()
		switch {
		case x > widget.GroupSign:
		case w.IsGroup:
			p.expand(h, !w.Open)
		case w.fibers > 0:
			p.expand(h, !w.unfolded)
		}
		h.Refresh()
		return nil
	})
	rows := 1 + len(p.Table.Rows)
	var selected *scene.Row
	if i := p.Table.Index(); i >= 0 {
		selected = &p.Table.Rows[i].Row
	}
	p.now.Draw(a.Sub(0, rows, a.W, a.H-rows), sc, selected)
}

// leastName is the least width, in columns, that a thread's name keeps. The number of the thread's fibers is drawn
// after the name, and must not take this room.
const leastName = 6

// drawTreeName draws the name of a thread or a group. Threads within a group are indented.
func drawTreeName(a canvas.Area, w *TableRow, sc *scene.Scene) {
	t := &sc.Theme
	if w.fiber != nil {
		w.fiber.draw(a, w, t)
		return
	}
	x, name := 0, t.Plain()
	if w.InGroup {
		x = 2
	}
	if w.IsGroup {
		name = t.Bold()
	}
	if w.IsGroup || w.fibers > 0 {
		sign := "▸"
		if w.Open || w.unfolded {
			sign = "▾"
		}
		a.Put(x, 0, sign, t.Dimmed())
	}
	fibers := w.fibersText(a.W - x - 2)
	room := a.W - x - 2
	if fibers != "" {
		room = max(room-1-canvas.Width(fibers), min(room, leastName))
	}
	end := a.Put(x+2, 0, canvas.CutName(w.Name, room), name)
	if fibers != "" && a.W > end+1 {
		a.Put(end+1, 0, canvas.Cut(fibers, a.W-end-1), t.Dimmed())
	}
}

// percents returns how the row's time is divided, in percent: holding the GVL, waiting for it, I/O, and all other time.
func (w *TableRow) percents() []int {
	run := w.Totals[gvl.Running] + w.Totals[gvl.Stalled] + w.Totals[gvl.GC]
	wait, io := w.Totals[gvl.Waiting], w.Totals[gvl.IO]
	return units.Percents(run, wait, io, units.Sum(w.Totals[:])-run-wait-io)
}

func p99Text(w *TableRow, sc *scene.Scene) (string, canvas.Style) {
	const longNS = int64(50e6)
	t := &sc.Theme
	switch {
	case !sc.Figures.Enough(sampler.FigureWaits) && w.fiber == nil:
		return "–", t.Faded()
	case w.p99NS == 0:
		return w.p99, t.Faded()
	case w.p99NS >= longNS:
		return w.p99, canvas.Style{FG: t.Readable(t.States[gvl.Waiting]), Attr: canvas.Bold}
	}
	return w.p99, t.Plain()
}

func detailText(w *TableRow, sc *scene.Scene) (string, canvas.Style) {
	if th := &sc.Threads[w.Members[0]]; !w.IsGroup && w.fiber == nil && th.Known {
		return cmp.Or(th.Idle, beyondState(th.State, sc.Dict)), sc.Theme.Dimmed()
	}
	return "", sc.Theme.Dimmed()
}

// beyondState returns the description of a thread's state without the state's name and duration, because other columns
// show these two.
func beyondState(ts gvl.ThreadState, dict *sampler.Dictionary) string {
	ts.Detail.FD = -1 // leaves room for the address
	s := strings.TrimPrefix(gvl.Describe(ts, dict), ts.State.String())
	for _, said := range []string{" " + ts.Lasted().Prose(), " " + units.ProseDuration(ts.DurationNS()), ": ", " "} {
		s = strings.TrimPrefix(s, said)
	}
	return s
}

// drawState draws in which state a thread is and for how long. For a group it draws how many of its threads are in each
// state.
func drawState(a canvas.Area, w *TableRow, sc *scene.Scene) {
	t := &sc.Theme
	if w.IsGroup {
		sc.Threads.States(w.Members).Draw(a, t, t.Dimmed())
		return
	}
	if w.fiber != nil {
		w.fiber.drawState(a, t)
		return
	}
	th := &sc.Threads[w.Members[0]]
	if !th.Seen {
		a.Put(0, 0, "ended", t.Dimmed())
		return
	}
	word, st := scene.StateWord(th.State.State, th.Idle != "", t)
	x := a.Put(0, 0, word, st)
	if th.Known {
		a.Put(x+1, 0, canvas.Cut(th.State.Lasted().Duration(), a.W-x-1), t.Dimmed())
	}
}

// drawFrame draws the thread's request, and after it the innermost frame of the thread's stack, with file and line.
func drawFrame(a canvas.Area, w *TableRow, sc *scene.Scene) {
	if w.fiber != nil {
		a.Put(0, 0, canvas.Cut(w.fiber.what, a.W), sc.Theme.Plain())
		return
	}
	th := &sc.Threads[w.Members[0]]
	if w.IsGroup || !th.Known {
		return
	}
	if of := sc.RequestOf(th.ID); of != "" { // the request says more than the function
		x := a.Put(0, 0, canvas.Cut(of, a.W), sc.Theme.Bold())
		if left := a.W - x - 2; left >= leastFrame {
			drawFrameOf(a.Sub(x+2, 0, left, 1), th.State.Stack, sc)
		}
		return
	}
	drawFrameOf(a, th.State.Stack, sc)
}

// leastFrame is the least width, in columns, at which a frame is drawn after a request. With less room the frame is
// left out.
const leastFrame = 10

func drawFrameOf(a canvas.Area, stack sampler.StackID, sc *scene.Scene) {
	_, id := sc.Dict.Stack(stack)
	if id == 0 {
		return
	}
	f := sc.Dict.Frame(id)
	label, where := gvl.AddLine(f.Label, frameWhere(sc.Dict, stack))
	x := a.Put(0, 0, flamegraph.LabelFit(canvas.Clean(label), a.W), sc.Theme.Plain())
	if where != "" && a.W-x > canvas.Width(where) {
		a.Put(x+1, 0, where, sc.Theme.Dimmed())
	}
}

// frameWhere returns the file and line of the innermost frame that is written in Ruby. It returns "" if the stack has
// no such frame.
func frameWhere(dict *sampler.Dictionary, stack sampler.StackID) string {
	const maxUp = 64 // limits how many C functions are skipped in the search for a Ruby frame
	for range maxUp {
		caller, id := dict.Stack(stack)
		if id == 0 {
			return ""
		}
		if f := dict.Frame(id); !f.C && f.Path != "" {
			return style.LineIn(filepath.Base(f.Path), f.Line, f.Uncertain)
		}
		stack = caller
	}
	return ""
}
