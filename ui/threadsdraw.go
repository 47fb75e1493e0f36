package ui

import (
	"fmt"
	"path/filepath"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// tableColumns are the columns of the table of threads; 0: there is no room for it.
type tableColumns struct{ name, now, bar, shares, cpu, p99, frame, detail int }

func newTableColumns(w int) tableColumns {
	var c tableColumns
	switch {
	case w >= 160:
		c = tableColumns{name: 24, now: 17, bar: 30, shares: 17, cpu: 6, p99: 9}
	case w >= wideWidth:
		c = tableColumns{name: 20, now: 17, bar: 24, cpu: 6, p99: 9}
	case w >= 80:
		c = tableColumns{name: 14, now: 16, bar: 14, cpu: 5, p99: 8}
	default:
		c = tableColumns{name: 12, now: 16, bar: 9, cpu: 5, p99: 8}
	}
	used := 1
	for _, n := range []int{c.name, c.now, c.bar, c.shares, c.cpu, c.p99} {
		if n > 0 {
			used += n + 1
		}
	}
	const leastFrame = 8
	if c.frame = w - used; c.frame < leastFrame {
		c.frame = 0
	}
	if w >= 160 {
		c.detail = c.frame / 2
		c.frame -= c.detail + 1
	}
	return c
}

func (p *threadsPage) draw(a canvas.Area, m *Model) {
	t := &m.theme
	c := newTableColumns(a.W)
	p.drawHead(a.Row(0), c, m)
	body := a.Sub(0, 1, a.W, a.H-1)
	i := p.index(m)
	if i >= 0 {
		p.top = max(min(p.top, i), i-body.H+1)
	}
	p.top = max(0, min(p.top, len(p.rows)-body.H))
	for y := range min(body.H, len(p.rows)-p.top) {
		w := &p.rows[p.top+y]
		p.drawRow(body.Row(y), w, m, c)
		key, sign, open := w.key, w.isGroup, w.open
		m.onPress(body.Row(y), func(m *Model, x, _ int) tea.Cmd {
			m.timeline.selected = key
			if sign && x <= groupSign {
				p.expand(m, !open)
			}
			m.refresh()
			return nil
		})
	}
	m.drawNow(a.Sub(0, 1+len(p.rows), a.W, a.H-1-len(p.rows)))
	a.PutRight(0, hiddenRows(p.top, len(p.rows)-p.top-body.H), canvas.Style{FG: t.Warn, Attr: canvas.Bold})
}

// hiddenRows says how many rows of a list are above and below those drawn; "" when there are none.
func hiddenRows(above, below int) string {
	s := ""
	if above > 0 {
		s += fmt.Sprintf(" ▲%d", above)
	}
	if below > 0 {
		s += fmt.Sprintf(" ▼%d", below)
	}
	if s != "" {
		s += " "
	}
	return s
}

func (p *threadsPage) drawHead(a canvas.Area, c tableColumns, m *Model) {
	share := 0
	if c.shares > 0 {
		share = 5
	}
	drawTableHead(a, 1, m, p.sort, byOrder, []headColumn[sortBy]{
		{width: c.name, text: "  thread", by: byName},
		{width: c.now, text: "now", by: byState},
		{width: c.bar, text: "states"},
		{width: share, text: "run", by: byRun, right: true},
		{width: share, text: "wait", by: byWait, right: true},
		{width: share, text: "io", by: byIO, right: true},
		{width: c.cpu, text: "CPU", by: byCPU, right: true},
		{width: c.p99, text: "p99", by: byP99, right: true},
		{width: c.frame, text: "current frame"},
		{width: c.detail, text: "detail"},
	}, p.sortFrom)
}

func (p *threadsPage) drawRow(a canvas.Area, w *tableRow, m *Model, c tableColumns) {
	t, v := &m.theme, &m.timeline
	x := 1
	if w.inGroup {
		x = 3
	}
	name := t.text()
	if w.isGroup {
		name = t.bold()
		sign := "▸"
		if w.open {
			sign = "▾"
		}
		a.Put(x, 0, sign, t.dim())
	}
	a.Put(x+2, 0, canvas.Cut(w.name, c.name-x-1), name)
	x = c.name + 2
	p.drawState(a.Sub(x, 0, c.now, 1), w, m)
	x += c.now + 1
	barX := x
	x += c.bar + 1
	if c.shares > 0 {
		run := w.totals[gvl.Running] + w.totals[gvl.Stalled] + w.totals[gvl.GC]
		var rest int64
		for s, ns := range w.totals {
			if st := gvl.State(s); !st.Held() && st != gvl.Waiting && st != gvl.IO {
				rest += ns
			}
		}
		n := units.Percents(run, w.totals[gvl.Waiting], w.totals[gvl.IO], rest)
		for i, s := range []gvl.State{gvl.Running, gvl.Waiting, gvl.IO} {
			st := canvas.Style{FG: t.readable(t.States[s])}
			if n[i] == 0 {
				st = t.faint()
			}
			a.Put(x, 0, fmt.Sprintf("%3d %%", n[i]), st)
			x += 6
		}
	}
	a.Put(x, 0, canvas.PadLeft(units.Percent(w.cpu), c.cpu), t.text())
	x += c.cpu + 1
	p99 := t.text()
	const longNS = int64(50e6)
	switch {
	case w.p99NS == 0:
		p99 = t.faint()
	case w.p99NS >= longNS:
		p99 = canvas.Style{FG: t.readable(t.States[gvl.Waiting]), Attr: canvas.Bold}
	}
	a.Put(x, 0, canvas.PadLeft(w.p99, c.p99), p99)
	x += c.p99 + 1
	if !w.isGroup {
		th := &v.threads[w.members[0]]
		p.drawFrame(a.Sub(x, 0, c.frame, 1), th, m)
		if c.detail > 0 && th.known {
			a.Put(x+c.frame+1, 0, canvas.Cut(beyondState(th.state, m.store.dict), c.detail), t.dim())
		}
	}
	if w.key == v.selected {
		v.highlight(a, t, true)
		a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
	}
	t.drawStates(a.Sub(barX, 0, c.bar, 1), &w.totals, m.opt.ASCII)
}

// beyondState is what a description tells of a thread besides its state and how long it has been in it, which stand in a column of
// their own.
func beyondState(ts gvl.ThreadState, dict *sampler.Dictionary) string {
	s := strings.TrimPrefix(gvl.Describe(ts, dict), ts.State.String())
	for _, said := range []string{" " + units.ProseDuration(ts.DurationNS()), ": ", " "} {
		s = strings.TrimPrefix(s, said)
	}
	return s
}

// drawState writes what the thread does and for how long, or counts the states of a group.
func (p *threadsPage) drawState(a canvas.Area, w *tableRow, m *Model) {
	t := &m.theme
	if w.isGroup {
		w.now = m.timeline.groupNow(&w.row)
		m.timeline.drawGroupNow(a, &w.row, t, t.dim())
		return
	}
	th := &m.timeline.threads[w.members[0]]
	if !th.seen {
		a.Put(0, 0, "ended", t.dim())
		return
	}
	s := th.state.State
	st := canvas.Style{FG: t.readable(t.States[s])}
	if s == gvl.Waiting || s.Held() || s == gvl.Lock {
		st.Attr = canvas.Bold
	}
	x := a.Put(0, 0, s.String(), st)
	if th.known {
		a.Put(x+1, 0, canvas.Cut(units.Duration(th.state.DurationNS()), a.W-x-1), t.dim())
	}
}

// drawFrame writes the innermost frame of a thread's stack and where it is.
func (p *threadsPage) drawFrame(a canvas.Area, th *threadRow, m *Model) {
	if !th.known {
		return
	}
	_, id := m.store.dict.Stack(th.state.Stack)
	if id == 0 {
		return
	}
	f := m.store.dict.Frame(id)
	x := a.Put(0, 0, flamegraph.LabelFit(canvas.Clean(f.Label), a.W), m.theme.text())
	if where := frameWhere(m.store.dict, th.state.Stack); where != "" && a.W-x > canvas.Width(where) {
		a.Put(x+1, 0, where, m.theme.dim())
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
			return lineIn(filepath.Base(f.Path), f.Line, f.Uncertain)
		}
		stack = caller
	}
	return ""
}

// barStates is the order of the states in a bar.
var barStates = [...]gvl.State{gvl.Running, gvl.Stalled, gvl.GC, gvl.Waiting, gvl.Lock, gvl.Native, gvl.IO, gvl.Parked, gvl.Sleeping, gvl.Unknown}

// drawStates draws a bar whose columns are shared out by the time in each state. Waiting has a column however short it
// was: the eye must not miss it.
func (t *Theme) drawStates(a canvas.Area, totals *[gvl.NumStates]int64, ascii bool) {
	parts := make([]int64, len(barStates))
	for i, s := range barStates {
		parts[i] = totals[s]
	}
	widths := units.Divide(a.W, parts, units.Sum(parts), nil)
	const waiting = 3
	if widths[waiting] == 0 && parts[waiting] > 0 {
		most := 0
		for i := range widths {
			if widths[i] > widths[most] {
				most = i
			}
		}
		if widths[most] > 1 {
			widths[most]--
			widths[waiting]++
		}
	}
	x := 0
	for i, s := range barStates {
		c := gvl.Cell{Dominant: s, Share: 1, SpanNS: 1}
		c.NS[s] = 1
		r, st := t.stateCell(&c, ascii, nil)
		for range widths[i] {
			a.Rune(x, 0, r, st)
			x++
		}
	}
}
