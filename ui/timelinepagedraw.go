package ui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

func (p *timelinePage) draw(a canvas.Area, sc *scene) {
	t, v, g := &sc.Theme, p.timeline, &sc.regions
	end, then := sc.nowWord(), sc.nowWord()
	if p.close.on() {
		end, then = "end", "at the cursor"
		if p.cursorNS < p.span[0] || p.cursorNS >= p.span[1] {
			then = "at the end"
		}
	}
	v.drawAxis(a.Row(0), t, g, true, end, then)
	lanes := min(len(v.lanes), maxLanes)
	rows := a.Sub(0, 1, a.W, p.rowCount)
	v.draw(rows, a.Sub(0, 1+p.rowCount, a.W, lanes), t, g, true, sc.opt.ASCII)
	y := 1 + p.rowCount + lanes
	high := p.laneRows * processLanes
	p.drawProcess(a.Sub(0, y, a.W, high), sc)
	sc.onPress(rows, func(h Host, x, y int) tea.Cmd { return p.press(h, x, y) })
	sc.onPress(a.Sub(g.cellsX, 0, g.cellsW, y+high), func(h Host, x, y int) tea.Cmd { return p.press(h, g.cellsX+x, y-1) })
	p.drawCursor(a, y+high, sc)
	sc.drawDrag(a.Sub(g.cellsX, 0, g.cellsW, y+high))
}

// drawProcess draws the lanes of the collector, the CPU and the waiting on the axis of the threads.
func (p *timelinePage) drawProcess(a canvas.Area, sc *scene) {
	t, g := &sc.Theme, &sc.regions
	var sum gvl.ProcCell
	cpuTop, waitTop := 1.0, 1.0
	for _, c := range p.process {
		sum.SampledNS += c.SampledNS
		sum.GCNS += c.GCNS
		sum.CPUNS += c.CPUNS
		sum.WaitNS += c.WaitNS
		cpuTop, waitTop = max(cpuTop, c.CPU()), max(waitTop, c.Waiters())
	}
	lanes := [processLanes]struct {
		name, value string
		top         float64
		of          func(gvl.ProcCell) float64
		color       canvas.Color
	}{
		{"GC", units.Percent(style.Share(sum.GCNS, sum.SampledNS)) + " of the time", 1, gvl.ProcCell.GC, t.Readable(t.States[gvl.GC])},
		{"CPU", units.Percent(style.Share(sum.CPUNS, sum.SampledNS)) + " of a core", cpuTop, gvl.ProcCell.CPU, t.Text},
		{"waiting", waitingText(style.Share(sum.WaitNS, sum.SampledNS), waitTop, g.nowW), waitTop, gvl.ProcCell.Waiters, t.Readable(t.States[gvl.Waiting])},
	}
	if p.close.on() { // the counters are read more rarely than the columns are long, and so is whether a collection goes on
		for i := range lanes[:2] {
			lanes[i].value, lanes[i].of = "–", func(gvl.ProcCell) float64 { return 0 }
		}
	}
	for i, l := range lanes {
		y := i * p.laneRows
		a.Put(1, y, l.name, t.Dimmed())
		a.Put(g.nameW+1, y, canvas.Cut(l.value, g.nowW), t.Dimmed())
		cells := a.Sub(g.cellsX, y, g.cellsW, p.laneRows)
		for x := range cells.W {
			i := cellAt(x, len(p.process), cells.W)
			if i < 0 || p.process[i].SampledNS == 0 {
				continue
			}
			if value := l.of(p.process[i]); value > 0 {
				style.DrawColumn(cells, x, value/l.top, canvas.Style{FG: l.color})
			}
		}
	}
}

// waitingText says how many threads waited for the GVL in the mean and at most, in so many columns.
func waitingText(mean, most float64, w int) string {
	s := fmt.Sprintf("%.1f threads, up to %.0f", mean, most)
	if canvas.Width(s) > w {
		s = fmt.Sprintf("%.1f threads", mean)
	}
	return s
}

// drawCursor marks the column of the cursor and says what the selected thread did then.
func (p *timelinePage) drawCursor(a canvas.Area, y int, sc *scene) {
	t, v, g := &sc.Theme, p.timeline, &sc.regions
	if p.cursorNS < p.span[0] || p.cursorNS >= p.span[1] {
		a.Put(1, y, canvas.Cut("← → a cursor in time   + - zoom   [ ] move", a.W-2), t.Dimmed())
		p.now.draw(a.Sub(0, y+1, a.W, a.H-y-1), sc, v.selectedRow())
		return
	}
	cell := int((p.cursorNS - p.span[0]) / p.cellNS(sc))
	for x := range g.cellsW {
		if cellAt(x, v.cells, g.cellsW) == cell {
			a.Sub(g.cellsX+x, 1, 1, y-1).Restyle(func(s canvas.Style) canvas.Style {
				s.Attr ^= canvas.Reverse
				return s
			})
			a.Put(g.cellsX+x, 0, "▼", canvas.Style{FG: t.Accent, Attr: canvas.Bold})
		}
	}
	form := "15:04:05.000"
	if p.close.on() {
		form = "15:04:05.000000"
	}
	x := a.Put(1, y, sc.process.WallTime(p.cursorNS).Format(form), canvas.Style{FG: t.Accent, Attr: canvas.Bold})
	x = a.Put(x+1, y, "–"+units.Duration(sc.lastNS-p.cursorNS), t.Dimmed())
	i := v.index()
	switch {
	case p.at.atNS == p.cursorNS && p.at.err != nil:
		a.Put(x+2, y, canvas.Cut(sc.showable(p.at.err.Error()), a.W-x-3), canvas.Style{FG: t.Crit})
		return
	case i < 0:
		a.Put(x+2, y, canvas.Cut("↑ ↓ select a thread to see what it did", a.W-x-3), t.Dimmed())
		return
	case v.rows[i].isGroup:
		a.Put(x+2, y, canvas.Cut(p.groupUnder(v, &v.rows[i]), a.W-x-3), t.Plain())
		return
	}
	x = a.Put(x+2, y, v.rows[i].name, t.Bold())
	s, ok := p.under(v.rows[i].key.thread)
	if c := p.cellAtCursor(&v.rows[i]); ok && p.close.on() && c != nil && c.Listed() > 0 { // the sample is older than the column
		forms := cellForms(c)
		if c.NS[s.State] > 0 {
			forms = gvl.DescribeFit(s, sc.dict)
		}
		a.Put(x+1, y, fit(forms, a.W-x-2), canvas.Style{FG: t.Readable(t.States[c.Dominant]), Attr: canvas.Bold})
		p.drawStackAtCursor(a, y, s.Stack, sc)
		return
	}
	if !ok {
		word := "not there"
		if p.at.atNS != p.cursorNS {
			word = "reading …"
		}
		a.Put(x+1, y, word, t.Dimmed())
		return
	}
	a.Put(x+1, y, fit(gvl.DescribeFit(s, sc.dict), a.W-x-2), canvas.Style{FG: t.Readable(t.States[s.State]), Attr: canvas.Bold})
	p.drawStackAtCursor(a, y, s.Stack, sc)
}

// drawStackAtCursor lists a stack under the row y, or writes it in one.
func (p *timelinePage) drawStackAtCursor(a canvas.Area, y int, stack sampler.StackID, sc *scene) {
	const enough = 4 // rows, for a stack with a row a frame
	if a.H-y-1 >= enough {
		sc.listStack(a.Sub(1, y+1, a.W-2, a.H-y-1), stack, p.now.folds())
		return
	}
	a.Put(1, y+1, canvas.Cut(sc.stackText(stack, p.now.folds()), a.W-2), sc.Theme.Plain())
}

// groupUnder counts the states of a group's members at the cursor.
func (p *timelinePage) groupUnder(v *timelineView, w *row) string {
	var counts stateCounts
	for _, k := range w.members {
		if s, ok := p.under(v.threads[k].id); ok {
			counts[s.State]++
		}
	}
	if counts == (stateCounts{}) {
		return w.name
	}
	return w.name + between + counts.String()
}
