package ui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// drawLower draws the rule with the names of the views below the table, and the one that is chosen.
func (p *processesPage) drawLower(a canvas.Area, m *scene) {
	t := &m.theme
	if a.H < 2 {
		return
	}
	rule, body := a.Row(0), a.Sub(0, 1, a.W, a.H-1)
	p.buildFlame(m, body.W, body.H)
	if p.lower == lowerFlame {
		p.flame.drawRule(rule, t, p.onLower, m.when())
		p.flame.draw(body, t, p.onLower, !m.opt.NoColor)
		m.onPress(body, func(m *Model, x, y int) tea.Cmd {
			p.onLower = true
			p.flame.selectAt(x, y, body.H)
			m.refresh()
			return nil
		})
		return
	}
	rule.Fill('─', t.line())
	st := t.bold()
	if p.onLower {
		st = canvas.Style{FG: t.Accent, Attr: canvas.Bold}
	}
	x := rule.Put(2, 0, " "+lowerNames[p.lower], st)
	text := " · all processes · "
	if p.flame.filter != "" && p.lower == lowerTop {
		text = " · only " + p.flame.filter + " · "
	}
	if p.lower == lowerTop {
		text += metricName(p.flame.metric) + " · "
		if few := p.flame.few(); few != "" {
			text += few + " · "
		}
		if p.flame.metric == flamegraph.Wall && !p.flame.showIdle {
			text += "idle hidden · "
		}
		p.drawFunctions(body, m)
	} else {
		p.drawFindings(body, m)
	}
	rule.Put(x, 0, canvas.Cut(text+m.when()+" ", rule.W-x-1), t.dim())
}

func (p *processesPage) scrollList(rows, count int) {
	p.drawn = rows
	p.at = max(0, min(p.at, count-1))
	p.listTop = max(min(p.listTop, p.at), p.at-rows+1)
	p.listTop = max(0, min(p.listTop, count-rows))
}

// pressable makes a line of the list below the table answer clicks.
func (p *processesPage) pressable(row canvas.Area, m *scene, i int) {
	m.onPress(row, func(m *Model, _, _ int) tea.Cmd { p.onLower, p.at = true, i; m.refresh(); return nil })
}

// drawFunctions lists the functions of all processes by their own time.
func (p *processesPage) drawFunctions(a canvas.Area, m *scene) {
	t := &m.theme
	if len(p.functions) == 0 {
		a.Put(3, a.H/2, canvas.Cut("no "+metricName(p.flame.metric)+" here", a.W-4), t.dim())
		return
	}
	a.Put(1, 0, canvas.PadLeft("self", 7), canvas.Style{FG: t.Accent, Attr: canvas.Bold})
	a.Put(9, 0, canvas.PadLeft("total", 7), t.dim())
	if p.selected == nil {
		a.Put(17, 0, canvas.PadLeft("in", 9), t.dim())
	}
	nameX := 18
	if p.selected == nil {
		nameX = 28
	}
	a.Put(nameX, 0, "function", t.dim())
	body := a.Sub(0, 1, a.W, a.H-1)
	p.scrollList(body.H, len(p.functions))
	for y := range min(body.H, len(p.functions)-p.listTop) {
		p.pressable(body.Row(y), m, p.listTop+y)
		r, row := &p.functions[p.listTop+y], body.Row(y)
		row.Put(1, 0, canvas.PadLeft(sharePoints(share(r.self, p.sum)), 7), t.bold())
		row.Put(9, 0, canvas.PadLeft(sharePoints(share(r.total, p.sum)), 7), t.text())
		in := fmt.Sprintf("%d of %d", r.processes, len(p.rows))
		if p.selected == nil {
			row.Put(17, 0, canvas.PadLeft(in, 9), t.dim())
		}
		room := row.W - nameX - 1
		where := r.where()
		x := row.Put(nameX, 0, flamegraph.LabelFit(canvas.Clean(r.label), max(room*6/10, room-canvas.Width(where)-2)), canvas.Style{FG: t.readable(t.Flame[r.from])})
		if rest := row.W - x - 3; rest > 6 {
			row.Put(x+2, 0, canvas.CutLeft(where, rest), t.dim())
		}
		if p.onLower && p.listTop+y == p.at {
			markRow(row, m, true)
		}
	}
}

// drawFindings lists the findings of all processes, the worst first, a line of figures under each where there is room.
func (p *processesPage) drawFindings(a canvas.Area, m *scene) {
	t := &m.theme
	if len(p.findings) == 0 {
		a.Put(3, a.H/2, canvas.Cut("no findings: nothing stands out in any of the processes", a.W-4), t.dim())
		return
	}
	p.scrollList(a.H, len(p.findings))
	for y := range min(a.H, len(p.findings)-p.listTop) {
		p.pressable(a.Row(y), m, p.listTop+y)
		f, row := &p.findings[p.listTop+y], a.Row(y)
		process := f.of.store.Process()
		mark, color := severityMark(f.Severity, t)
		row.Put(1, 0, mark, canvas.Style{FG: color, Attr: canvas.Bold})
		x := row.Put(3, 0, canvas.Cut(fmt.Sprintf("%s %d", process.Title, process.PID), 22), t.bold())
		x = row.Put(max(x+1, 20), 0, f.Title, canvas.Style{FG: color, Attr: canvas.Bold})
		row.Put(x+2, 0, canvas.Cut(canvas.Clean(f.Text), row.W-x-3), t.text())
		if p.onLower && p.listTop+y == p.at {
			markRow(row, m, true)
		}
	}
}
