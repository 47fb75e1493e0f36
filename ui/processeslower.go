package ui

import (
	"cmp"
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// drawLower draws the rule with the names of the views below the table, and the one that is chosen.
func (p *processesPage) drawLower(a canvas.Area, sc *scene) {
	t := &sc.Theme
	if a.H < 2 {
		return
	}
	rule, body := a.Row(0), a.Sub(0, 1, a.W, a.H-1)
	p.buildFlame(sc, body.W, body.H)
	if p.lower == lowerFlame {
		p.flame.drawRule(rule, t, p.onLower, sc.when())
		p.flame.draw(body, t, p.onLower, !sc.opt.NoColor)
		sc.onPress(body, func(h Host, x, y int) tea.Cmd {
			p.onLower = true
			p.flame.selectAt(x, y, body.H)
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
	if p.flame.filter != "" && p.lower == lowerTop {
		text = " · only " + p.flame.filter + " · "
	}
	if p.lower == lowerTop {
		text += style.MetricName(p.flame.metric) + " · "
		if few := p.flame.few(); few != "" {
			text += few + " · "
		}
		if p.flame.metric == flamegraph.Wall && !p.flame.showIdle {
			text += "idle hidden · "
		}
		if p.flame.folding == foldLibraries {
			text += "own code (c) · "
		}
		p.drawFunctions(body, sc)
	} else {
		p.drawFindings(body, sc)
	}
	rule.Put(x, 0, canvas.Cut(text+sc.when()+" ", rule.W-x-1), t.Dimmed())
}

// functionColumns are the columns of the functions of all processes.
func (p *processesPage) functionColumns() []column[*mergedRow] {
	weight := func(by topOrder, of func(*mergedRow) int64) column[*mergedRow] {
		return column[*mergedRow]{title: string(by), width: wide(7), right: true, order: string(by),
			compare: func(x, y *mergedRow) int { return cmp.Compare(of(y), of(x)) },
			text: func(r *mergedRow, sc *scene) (string, canvas.Style) {
				st := sc.Theme.Plain()
				if string(by) == p.functions.by {
					st = sc.Theme.Bold()
				}
				return sharePoints(style.Share(of(r), p.sum)), st
			}}
	}
	return []column[*mergedRow]{
		weight(bySelf, func(r *mergedRow) int64 { return r.self }),
		weight(byTotal, func(r *mergedRow) int64 { return r.total }),
		{title: "in", right: true,
			width: func(int) int {
				if p.table.cursor.of != nil {
					return 0
				}
				return 9
			},
			text: func(r *mergedRow, sc *scene) (string, canvas.Style) {
				return fmt.Sprintf("%d of %d", r.processes, len(p.rows)), sc.Theme.Dimmed()
			}},
		{title: " function", width: wide(rest), draw: func(a canvas.Area, r *mergedRow, sc *scene) {
			drawFunction(a.Sub(1, 0, a.W-1, 1), r.label, r.where(), canvas.Style{FG: sc.Theme.Readable(sc.Theme.Flame[r.from])}, &sc.Theme)
		}},
	}
}

// drawFunctions lists the functions of all processes.
func (p *processesPage) drawFunctions(a canvas.Area, sc *scene) {
	if len(p.functions.rows) == 0 {
		a.Put(3, a.H/2, canvas.Cut("no "+style.MetricName(p.flame.metric)+" here", a.W-4), sc.Theme.Dimmed())
		return
	}
	p.functions.draw(a, sc, p.onLower, func(h Host, _ *mergedRow, _ int) tea.Cmd { return p.enterLower(h) })
}

// enterLower gives the view below the table the keys.
func (p *processesPage) enterLower(h Host) tea.Cmd {
	p.onLower = true
	h.Refresh()
	return nil
}

// drawFindings lists the findings of all processes, the worst first.
func (p *processesPage) drawFindings(a canvas.Area, sc *scene) {
	t := &sc.Theme
	if len(p.findings.rows) == 0 {
		a.Put(3, a.H/2, canvas.Cut("no findings: nothing stands out in any of the processes in the last 10 s", a.W-4), t.Dimmed())
		return
	}
	p.findings.draw(a, sc, func(row canvas.Area, f *processFinding, selected bool) {
		process := f.of.store.Process()
		mark, st := findingMark(&f.Finding, t)
		row.Put(1, 0, mark, st)
		x := row.Put(3, 0, canvas.Cut(fmt.Sprintf("%s %d", process.Title, process.PID), 22), t.Bold())
		x = row.Put(max(x+1, 20), 0, f.When()+f.Title, st)
		row.Put(x+2, 0, canvas.Cut(canvas.Clean(f.Text), row.W-x-3), t.Plain())
		if selected {
			markRow(row, sc, p.onLower)
		}
	}, func(h Host, _ *processFinding, _ int) tea.Cmd { return p.enterLower(h) })
}
