package timeline

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
	t, v, g := &sc.Theme, p.Timeline, &sc.Regions
	end, then := sc.NowWord(), sc.NowWord()
	if p.Close.On() {
		end, then = "end", "at the cursor"
		if p.CursorNS < p.Span[0] || p.CursorNS >= p.Span[1] {
			then = "at the end"
		}
	}
	v.DrawAxis(a.Row(0), t, g, true, end, then)
	lanes := min(len(v.Lanes), scene.MaxLanes)
	rows := a.Sub(0, 1, a.W, p.rowCount)
	v.Draw(rows, a.Sub(0, 1+p.rowCount, a.W, lanes), t, g, true, sc.Opt.ASCII)
	y := 1 + p.rowCount + lanes
	high := p.laneRows * processLanes
	p.drawProcess(a.Sub(0, y, a.W, high), sc)
	sc.OnPress(rows, func(h scene.Host, x, y int) tea.Cmd { return p.press(h, x, y) })
	sc.OnPress(a.Sub(g.CellsX, 0, g.CellsW, y+high), func(h scene.Host, x, y int) tea.Cmd { return p.press(h, g.CellsX+x, y-1) })
	p.drawCursor(a, y+high, sc)
	sc.DrawDrag(a.Sub(g.CellsX, 0, g.CellsW, y+high))
}

// drawProcess draws three lanes (rows over time) about the whole process: the collector, the CPU, and how many threads
// wait. They have the same time axis as the threads.
func (p *Page) drawProcess(a canvas.Area, sc *scene.Scene) {
	t, g := &sc.Theme, &sc.Regions
	var sum timeline.ProcCell
	cpuTop, waitTop := 1.0, 1.0
	for _, c := range p.process {
		sum.SampledNS += c.SampledNS
		sum.GCNS += c.GCNS
		sum.CPUNS += c.CPUNS
		sum.WaitNS += c.WaitNS
		cpuTop, waitTop = max(cpuTop, c.CPU()), max(waitTop, c.Waiters())
	}
	gc, cpu := units.Percent(style.Share(sum.GCNS, sum.SampledNS)), units.Percent(style.Share(sum.CPUNS, sum.SampledNS))
	lanes := [processLanes]struct {
		name  string
		value []string // the longest form first
		top   float64
		of    func(timeline.ProcCell) float64
		color canvas.Color
	}{
		{"GC", []string{gc + " of the time", gc}, 1, timeline.ProcCell.GC, t.Readable(t.States[gvl.GC])},
		{"CPU", []string{cpu + " of a core", cpu}, cpuTop, timeline.ProcCell.CPU, t.Text},
		{"waiting", waitingText(style.Share(sum.WaitNS, sum.SampledNS), waitTop), waitTop, timeline.ProcCell.Waiters, t.Readable(t.States[gvl.Waiting])},
	}
	if p.Close.On() { // the collector and the CPU are read less often than once per column, so their lanes are empty
		for i := range lanes[:2] {
			lanes[i].value, lanes[i].of = []string{"–"}, func(timeline.ProcCell) float64 { return 0 }
		}
	}
	for i, l := range lanes {
		y := i * p.laneRows
		a.Put(1, y, l.name, t.Dimmed())
		a.Put(g.NameW+1, y, style.Fit(l.value, g.NowW), t.Dimmed())
		cells := a.Sub(g.CellsX, y, g.CellsW, p.laneRows)
		for x := range cells.W {
			i := widget.CellAt(x, len(p.process), cells.W)
			if i < 0 || p.process[i].SampledNS == 0 {
				continue
			}
			if value := l.of(p.process[i]); value > 0 {
				style.DrawColumn(cells, x, value/l.top, canvas.Style{FG: l.color})
			}
		}
	}
}

// waitingText returns texts that say how many threads waited for the GVL, on average and at most. The longest form
// comes first.
func waitingText(mean, most float64) []string {
	n := fmt.Sprintf("%.1f", mean)
	return []string{fmt.Sprintf("%s threads, up to %.0f", n, most), n + " threads", n}
}

// drawCursor marks the column of the cursor, and describes what the selected thread did at the cursor's time.
func (p *Page) drawCursor(a canvas.Area, y int, sc *scene.Scene) {
	t, v, g := &sc.Theme, p.Timeline, &sc.Regions
	if p.CursorNS < p.Span[0] || p.CursorNS >= p.Span[1] {
		a.Put(1, y, canvas.Cut("← → move a cursor in time   + - zoom   [ ] move", a.W-2), t.Dimmed())
		p.now.Draw(a.Sub(0, y+1, a.W, a.H-y-1), sc, v.SelectedRow())
		return
	}
	cell := int((p.CursorNS - p.Span[0]) / p.CellNS(sc))
	for x := range g.CellsW {
		if widget.CellAt(x, v.Cells, g.CellsW) == cell {
			a.Sub(g.CellsX+x, 1, 1, y-1).Restyle(func(s canvas.Style) canvas.Style {
				s.Attr ^= canvas.Reverse
				return s
			})
			a.Put(g.CellsX+x, 0, "▼", canvas.Style{FG: t.Accent, Attr: canvas.Bold})
		}
	}
	form := "15:04:05.000"
	if p.Close.On() {
		form = "15:04:05.000000"
	}
	x := a.Put(1, y, sc.Process.WallTime(p.CursorNS).Format(form), canvas.Style{FG: t.Accent, Attr: canvas.Bold})
	x = a.Put(x+1, y, "–"+units.Duration(sc.LastNS-p.CursorNS), t.Dimmed())
	i := v.Index()
	switch {
	case p.at.atNS == p.CursorNS && p.at.err != nil:
		a.Put(x+2, y, canvas.Cut(sc.Showable(p.at.err.Error()), a.W-x-3), canvas.Style{FG: t.Crit})
		return
	case i < 0:
		a.Put(x+2, y, canvas.Cut("↑ ↓ select a thread to see what it did", a.W-x-3), t.Dimmed())
		return
	case v.Rows[i].IsGroup:
		a.Put(x+2, y, canvas.Cut(p.groupUnder(v, &v.Rows[i]), a.W-x-3), t.Plain())
		return
	}
	x = a.Put(x+2, y, v.Rows[i].Name, t.Bold())
	s, ok := p.Under(v.Rows[i].Key.Thread)
	// show the states in the column itself, because the sample at the cursor is from an earlier time than the column
	if c := p.cellAtCursor(&v.Rows[i]); ok && p.Close.On() && c != nil && c.Listed() > 0 {
		forms := cellForms(c)
		if c.NS[s.State] > 0 {
			forms = gvl.DescribeFit(s, sc.Dict)
		}
		a.Put(x+1, y, style.Fit(forms, a.W-x-2), canvas.Style{FG: t.Readable(t.States[c.Dominant]), Attr: canvas.Bold})
		p.drawStackAtCursor(a, y, s.Stack, sc)
		return
	}
	if !ok {
		word := "not there"
		if p.at.atNS != p.CursorNS {
			word = "reading …"
		}
		a.Put(x+1, y, word, t.Dimmed())
		return
	}
	a.Put(x+1, y, style.Fit(gvl.DescribeFit(s, sc.Dict), a.W-x-2), canvas.Style{FG: t.Readable(t.States[s.State]), Attr: canvas.Bold})
	p.drawStackAtCursor(a, y, s.Stack, sc)
}

// drawStackAtCursor lists the frames of a stack, beginning below the row y. If there is little room, it writes all
// frames on one line.
func (p *Page) drawStackAtCursor(a canvas.Area, y int, stack sampler.StackID, sc *scene.Scene) {
	const enough = 4 // from this number of rows on, each frame gets a row
	if a.H-y-1 >= enough {
		sc.ListStack(a.Sub(1, y+1, a.W-2, a.H-y-1), stack, p.now.Folds())
		return
	}
	a.Put(1, y+1, canvas.Cut(sc.StackText(stack, p.now.Folds()), a.W-2), sc.Theme.Plain())
}

// groupUnder returns a text that says how many threads of a group were in each state at the cursor's time.
func (p *Page) groupUnder(v *widget.Timeline, w *scene.Row) string {
	var counts scene.StateCounts
	for _, k := range w.Members {
		if s, ok := p.Under(v.Threads[k].ID); ok {
			counts[s.State]++
		}
	}
	if counts == (scene.StateCounts{}) {
		return w.Name
	}
	return w.Name + style.Between + counts.String()
}
