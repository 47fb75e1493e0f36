package processes

import (
	"cmp"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// drawLower draws what is below the table of processes: a line with the names of the views, and the chosen view.
func (p *Page) drawLower(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	if a.H < 2 {
		return
	}
	rule, body := a.Row(0), a.Sub(0, 1, a.W, a.H-1)
	p.buildFlame(body.W, body.H)
	if p.lower == lowerFlame {
		// The list of functions gets the rows that the flamegraph does not need. Views 1 and 4 do the same.
		if free := body.H - p.Flame.RowsWanted(sc.LastNS); free >= widget.LeastPanel && len(p.functions.Rows) > 0 {
			p.drawBelow(body.Sub(0, body.H-free, body.W, free), sc)
			body = body.Sub(0, 0, body.W, body.H-free)
		}
		p.Flame.Fit(body.H)
		p.Flame.DrawRule(rule, t, p.onLower, sc.When())
		p.Flame.Draw(body, t, p.onLower, !sc.Opt.NoColor)
		sc.OnPress(body, func(h scene.Host, x, y int) tea.Cmd {
			p.onLower = true
			p.Flame.SelectAt(x, y, body.H)
			h.Refresh()
			return nil
		})
		return
	}
	rule.Fill('─', t.Rule())
	st := t.Bold()
	if p.onLower {
		st = canvas.Style{FG: t.Accent, Attr: canvas.Bold}
	}
	x := rule.Put(2, 0, " "+lowerNames[p.lower], st)
	text := " · all processes · "
	if p.Flame.Filter != "" && p.lower == lowerTop {
		text = " · only " + p.Flame.Filter + " · "
	}
	if p.lower == lowerTop {
		text += style.MetricName(p.Flame.Metric) + " · "
		if few := p.Flame.Few(); few != "" {
			text += few + " · "
		}
		if p.Flame.Metric == flamegraph.Wall && !p.Flame.ShowIdle {
			text += "idle hidden · "
		}
		if p.Flame.Folding == widget.FoldLibraries {
			text += "own code (c) · "
		}
		p.drawFunctions(body, sc)
	} else {
		p.drawFindings(body, sc)
	}
	rule.Put(x, 0, canvas.Cut(text+sc.When()+" ", rule.W-x-1), t.Dimmed())
}

// FunctionColumns returns the columns of the table of functions, with the sums over all processes.
func (p *Page) FunctionColumns() []widget.Column[*mergedRow] {
	weight := func(by widget.TopOrder, of func(*mergedRow) int64) widget.Column[*mergedRow] {
		return widget.Column[*mergedRow]{Title: string(by), Width: widget.Wide(7), Right: true, Order: string(by),
			Compare: func(x, y *mergedRow) int { return cmp.Compare(of(y), of(x)) },
			Text: func(r *mergedRow, sc *scene.Scene) (string, canvas.Style) {
				st := sc.Theme.Plain()
				if string(by) == p.functions.By {
					st = sc.Theme.Bold()
				}
				return widget.SharePoints(style.Share(of(r), p.sum)), st
			}}
	}
	return []widget.Column[*mergedRow]{
		weight(widget.BySelf, func(r *mergedRow) int64 { return r.Self }),
		weight(widget.ByTotal, func(r *mergedRow) int64 { return r.total }),
		{Title: "in", Right: true,
			Width: func(int) int {
				if p.Table.Cursor.Of != nil {
					return 0
				}
				return 9
			},
			Text: func(r *mergedRow, sc *scene.Scene) (string, canvas.Style) {
				return fmt.Sprintf("%d of %d", r.processes, len(p.rows)), sc.Theme.Dimmed()
			}},
		{Title: " function", Width: widget.Wide(widget.Rest), Draw: func(a canvas.Area, r *mergedRow, sc *scene.Scene) {
			widget.DrawFunction(a.Sub(1, 0, a.W-1, 1), r.Label, r.where(), canvas.Style{FG: sc.Theme.Readable(sc.Theme.Flame[r.from])}, &sc.Theme)
		}},
	}
}

// drawBelow lists the functions below the flamegraph.
func (p *Page) drawBelow(a canvas.Area, sc *scene.Scene) {
	rule := a.Row(0)
	rule.Fill('─', sc.Theme.Rule())
	x := rule.Put(2, 0, " hottest functions", sc.Theme.Bold())
	rule.Put(x, 0, " · v lists them alone ", sc.Theme.Dimmed())
	p.functions.Draw(a.Sub(0, 1, a.W, a.H-1), sc, false, func(h scene.Host, r *mergedRow, _ int) tea.Cmd {
		p.lower, *p.functions.Cursor = lowerTop, r.TopKey
		return p.enterLower(h)
	})
}

// drawFunctions lists the functions of all processes.
func (p *Page) drawFunctions(a canvas.Area, sc *scene.Scene) {
	if len(p.functions.Rows) == 0 {
		a.Put(3, a.H/2, canvas.Cut("no "+style.MetricName(p.Flame.Metric)+" here", a.W-4), sc.Theme.Dimmed())
		return
	}
	p.functions.Draw(a, sc, p.onLower, func(h scene.Host, _ *mergedRow, _ int) tea.Cmd { return p.enterLower(h) })
}

// enterLower moves the focus (the part that gets the keys) to the view below the table.
func (p *Page) enterLower(h scene.Host) tea.Cmd {
	p.onLower = true
	h.Refresh()
	return nil
}

// drawFindings lists the findings of all processes, the worst first.
func (p *Page) drawFindings(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	if len(p.findings.Rows) == 0 {
		a.Put(3, a.H/2, canvas.Cut("no findings: nothing stands out in any of the processes in the last 10 s", a.W-4), t.Dimmed())
		return
	}
	p.findings.Draw(a, sc, func(row canvas.Area, f *processFinding, selected bool) {
		process := f.of.Store.Process()
		mark, st := widget.FindingMark(&f.Finding, t)
		row.Put(1, 0, mark, st)
		x := row.Put(3, 0, canvas.CutName(fmt.Sprintf("%s %d", process.Name(), process.PID), 22), t.Bold())
		x = row.Put(max(x+1, 20), 0, f.When()+f.Title, st)
		row.Put(x+2, 0, canvas.Cut(canvas.Clean(f.Text), row.W-x-3), t.Plain())
		if selected {
			widget.MarkRow(row, sc, p.onLower)
		}
	}, func(h scene.Host, _ *processFinding, _ int) tea.Cmd { return p.enterLower(h) })
}
