package ui

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
	"github.com/ddtop/ddtop/ui/style"
)

// threadColumns are the columns of the table of threads.
func threadColumns() []column[*tableRow] {
	onlyWide := wide(0, 160, 5)
	percent := func(n int, s gvl.State) func(*tableRow, *scene) (string, canvas.Style) {
		return func(w *tableRow, sc *scene) (string, canvas.Style) {
			if w.fiber != nil {
				return "", sc.Theme.Faded()
			}
			p := w.percents()[n]
			if p == 0 {
				return "0 %", sc.Theme.Faded()
			}
			return fmt.Sprintf("%d %%", p), canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[s])}
		}
	}
	byPart := func(states ...gvl.State) func(x, y *tableRow) int {
		return func(x, y *tableRow) int { return cmp.Compare(y.part(states...), x.part(states...)) }
	}
	return []column[*tableRow]{
		{title: "  thread", width: wide(12, 80, 14, wideWidth, 20, 160, 24), draw: drawTreeName, order: "name",
			compare: func(x, y *tableRow) int { return strings.Compare(x.name, y.name) }},
		{title: "now", width: wide(16, wideWidth, 17), draw: drawState, order: "state",
			compare: func(x, y *tableRow) int { return cmp.Compare(x.urgent, y.urgent) }},
		{title: "states", width: wide(9, 80, 14, wideWidth, 24, 160, 30), bare: true,
			draw: func(a canvas.Area, w *tableRow, sc *scene) {
				if w.fiber == nil {
					sc.Theme.DrawStates(a, &w.totals, sc.opt.ASCII)
				}
			}},
		{title: "run", width: onlyWide, right: true, text: percent(0, gvl.Running), order: "run",
			compare: byPart(gvl.Running, gvl.Stalled, gvl.GC)},
		{title: "wait", width: onlyWide, right: true, text: percent(1, gvl.Waiting), order: "wait", compare: byPart(gvl.Waiting)},
		{title: "io", width: onlyWide, right: true, text: percent(2, gvl.IO), order: "io", compare: byPart(gvl.IO)},
		{title: "CPU", width: wide(5, wideWidth, 6), right: true, order: "CPU",
			text: func(w *tableRow, sc *scene) (string, canvas.Style) {
				if w.fiber != nil {
					return "", sc.Theme.Plain()
				}
				return units.Percent(w.cpu), sc.Theme.Plain()
			},
			compare: func(x, y *tableRow) int { return cmp.Compare(y.cpu, x.cpu) }},
		{title: "p99", width: wide(8, wideWidth, 9), right: true, order: "waits p99", text: p99Text,
			compare: func(x, y *tableRow) int { return cmp.Compare(y.p99NS, x.p99NS) }},
		{title: "current frame", width: wide(rest), least: 8, draw: drawFrame},
		{title: "detail", width: wide(0, 160, rest), text: detailText},
	}
}

func (p *threadsPage) draw(a canvas.Area, sc *scene) {
	p.table.draw(a, sc, true, func(h Host, w *tableRow, x int) tea.Cmd {
		p.choose()
		switch {
		case x > groupSign:
		case w.isGroup:
			p.expand(h, !w.open)
		case w.fibers > 0:
			p.expand(h, !w.unfolded)
		}
		h.Refresh()
		return nil
	})
	rows := 1 + len(p.table.rows)
	var selected *row
	if i := p.table.index(); i >= 0 {
		selected = &p.table.rows[i].row
	}
	p.now.draw(a.Sub(0, rows, a.W, a.H-rows), sc, selected)
}

// leastName is how many columns a thread's name keeps beside the number of its fibers.
const leastName = 6

// drawTreeName writes the name of a thread or a group, members behind their group.
func drawTreeName(a canvas.Area, w *tableRow, sc *scene) {
	t := &sc.Theme
	if w.fiber != nil {
		w.fiber.draw(a, w, t)
		return
	}
	x, name := 0, t.Plain()
	if w.inGroup {
		x = 2
	}
	if w.isGroup {
		name = t.Bold()
	}
	if w.isGroup || w.fibers > 0 {
		sign := "▸"
		if w.open || w.unfolded {
			sign = "▾"
		}
		a.Put(x, 0, sign, t.Dimmed())
	}
	fibers := w.fibersText(a.W - x - 2)
	room := a.W - x - 2
	if fibers != "" {
		room = max(room-1-canvas.Width(fibers), min(room, leastName))
	}
	end := a.Put(x+2, 0, canvas.Cut(w.name, room), name)
	if fibers != "" && a.W > end+1 {
		a.Put(end+1, 0, canvas.Cut(fibers, a.W-end-1), t.Dimmed())
	}
}

// percents are the row's shares of running, waiting, input and output, and the rest.
func (w *tableRow) percents() []int {
	run := w.totals[gvl.Running] + w.totals[gvl.Stalled] + w.totals[gvl.GC]
	wait, io := w.totals[gvl.Waiting], w.totals[gvl.IO]
	return units.Percents(run, wait, io, units.Sum(w.totals[:])-run-wait-io)
}

func p99Text(w *tableRow, sc *scene) (string, canvas.Style) {
	const longNS = int64(50e6)
	t := &sc.Theme
	switch {
	case w.p99NS == 0:
		return w.p99, t.Faded()
	case w.p99NS >= longNS:
		return w.p99, canvas.Style{FG: t.Readable(t.States[gvl.Waiting]), Attr: canvas.Bold}
	}
	return w.p99, t.Plain()
}

func detailText(w *tableRow, sc *scene) (string, canvas.Style) {
	if th := &sc.threads[w.members[0]]; !w.isGroup && w.fiber == nil && th.known {
		return beyondState(th.state, sc.dict), sc.Theme.Dimmed()
	}
	return "", sc.Theme.Dimmed()
}

// beyondState is what a description tells of a thread besides its state and how long it has been in it, which stand in a column of
// their own.
func beyondState(ts gvl.ThreadState, dict *sampler.Dictionary) string {
	ts.Detail.FD = -1 // which would cut an address
	s := strings.TrimPrefix(gvl.Describe(ts, dict), ts.State.String())
	for _, said := range []string{" " + ts.Lasted().Prose(), " " + units.ProseDuration(ts.DurationNS()), ": ", " "} {
		s = strings.TrimPrefix(s, said)
	}
	return s
}

// drawState writes what the thread does and for how long, or counts the states of a group.
func drawState(a canvas.Area, w *tableRow, sc *scene) {
	t := &sc.Theme
	if w.isGroup {
		sc.threads.states(w.members).draw(a, t, t.Dimmed())
		return
	}
	if w.fiber != nil {
		w.fiber.drawState(a, t)
		return
	}
	th := &sc.threads[w.members[0]]
	if !th.seen {
		a.Put(0, 0, "ended", t.Dimmed())
		return
	}
	s := th.state.State
	st := canvas.Style{FG: t.Readable(t.States[s])}
	if s == gvl.Waiting || s.Held() || s == gvl.Lock {
		st.Attr = canvas.Bold
	}
	x := a.Put(0, 0, s.String(), st)
	if th.known {
		a.Put(x+1, 0, canvas.Cut(waitedFor(&th.state), a.W-x-1), t.Dimmed())
	}
}

// drawFrame writes for whom a thread works, and the innermost frame of its stack and where that is.
func drawFrame(a canvas.Area, w *tableRow, sc *scene) {
	if w.fiber != nil {
		a.Put(0, 0, canvas.Cut(w.fiber.what, a.W), sc.Theme.Plain())
		return
	}
	th := &sc.threads[w.members[0]]
	if w.isGroup || !th.known {
		return
	}
	if of := sc.requestOf(th.id); of != "" { // for whom it works says more than the function it is in
		x := a.Put(0, 0, canvas.Cut(of, a.W), sc.Theme.Bold())
		if left := a.W - x - 2; left >= leastFrame {
			drawFrameOf(a.Sub(x+2, 0, left, 1), th.state.Stack, sc)
		}
		return
	}
	drawFrameOf(a, th.state.Stack, sc)
}

// leastFrame is how many columns a frame needs behind a request.
const leastFrame = 10

func drawFrameOf(a canvas.Area, stack sampler.StackID, sc *scene) {
	_, id := sc.dict.Stack(stack)
	if id == 0 {
		return
	}
	f := sc.dict.Frame(id)
	x := a.Put(0, 0, flamegraph.LabelFit(canvas.Clean(f.Label), a.W), sc.Theme.Plain())
	if where := frameWhere(sc.dict, stack); where != "" && a.W-x > canvas.Width(where) {
		a.Put(x+1, 0, where, sc.Theme.Dimmed())
	}
}

// frameWhere is the file and line of a stack's innermost frame written in Ruby; "" without one.
func frameWhere(dict *sampler.Dictionary, stack sampler.StackID) string {
	const maxUp = 64 // C functions in a row
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
