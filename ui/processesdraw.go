package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// leastFinding is how many columns a finding needs to be read: its sign, two words and how many there are besides.
const leastFinding = 19

// columns are those of the table.
func (p *processesPage) columns() []column[*processRow] {
	// A figure is not known before the process was read.
	figure := func(of func(f *figures) string) func(*processRow, *scene) (string, canvas.Style) {
		return func(w *processRow, sc *scene) (string, canvas.Style) {
			if w.figures.lockHz == 0 {
				return "–", w.style(&sc.Theme)
			}
			return of(&w.figures), w.style(&sc.Theme)
		}
	}
	by := func(of func(f *figures) float64) func(x, y *processRow) int {
		return func(x, y *processRow) int { return cmp.Compare(of(&y.figures), of(&x.figures)) }
	}
	return []column[*processRow]{
		{width: wide(1), text: markText},
		{title: "program", width: wide(13, wideWidth, 16, 160, 22), widens: (*scene).showsArgs, draw: p.drawTitle, order: "name",
			compare: func(x, y *processRow) int { return strings.Compare(x.process.Title, y.process.Title) },
			spans:   func(w *processRow) bool { return w.idle != nil }},
		{title: "pid", width: wide(7), right: true, text: pidText},
		{title: "ruby", width: wide(0, wideWidth+16, 12, 160, 13), text: rubyText}, // before that a finding in words says more
		// What other views and the lines above tell goes first.
		{title: "threads", short: "thr", width: wide(0, 80, 4, wideWidth, 7), drop: 1, right: true, text: threadsText},
		{title: "GVL", width: wide(5, wideWidth, 6), right: true, order: "GVL", compare: by(func(f *figures) float64 { return f.held }),
			text: func(w *processRow, sc *scene) (string, canvas.Style) {
				text, st := figure(func(f *figures) string { return units.Percent(f.held) })(w, sc)
				if w.figures.held >= 0.85 && w.state == processRuns {
					st.FG = sc.Theme.Warn
				}
				return text, st
			}},
		{title: "held over the time", width: wide(0, 160, laneColumns), draw: func(a canvas.Area, w *processRow, sc *scene) {
			style.DrawSpark(a, 0, w.lane, 1, canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Running])})
		}},
		{title: "waiting", short: "wait", width: wide(5, wideWidth, 7), right: true, order: "waiting",
			compare: by(func(f *figures) float64 { return f.waiting }),
			text: func(w *processRow, sc *scene) (string, canvas.Style) {
				text, st := figure(func(f *figures) string { return fmt.Sprintf("%.1f", f.waiting) })(w, sc)
				if w.figures.waiting >= 0.5 && w.state == processRuns {
					st.FG, st.Attr = sc.Theme.Readable(sc.Theme.States[gvl.Waiting]), canvas.Bold
				}
				return text, st
			}},
		{title: "p99", width: wide(7, wideWidth, 8), drop: 3, right: true, order: "waits p99",
			compare: by(func(f *figures) float64 { return float64(f.waitTold[store.WaitP99].NS) }),
			text: func(w *processRow, sc *scene) (string, canvas.Style) {
				return w.figures.waitInWords(store.WaitP99), w.style(&sc.Theme)
			}},
		{title: "CPU", width: wide(6), drop: 4, right: true, order: "CPU", compare: by(func(f *figures) float64 { return f.cpu }),
			text: figure(func(f *figures) string { return units.Percent(f.cpu) })},
		{title: "GC", width: wide(0, wideWidth, 5), right: true, order: "GC", compare: by(func(f *figures) float64 { return f.gc }),
			text: func(w *processRow, sc *scene) (string, canvas.Style) {
				if !w.figures.gcKnown {
					return "–", w.style(&sc.Theme)
				}
				return units.Percent(w.figures.gc), w.style(&sc.Theme)
			}},
		{title: "RSS", width: wide(0, 80, 7), drop: 2, right: true, order: "RSS",
			compare: by(func(f *figures) float64 { return float64(f.rss) }),
			text: func(w *processRow, sc *scene) (string, canvas.Style) {
				if w.figures.rss <= 0 {
					return "–", w.style(&sc.Theme)
				}
				return units.Bytes(w.figures.rss), w.style(&sc.Theme)
			}},
		{title: "worst finding", width: wide(rest), least: leastFinding, draw: p.drawWorst, order: "worst finding",
			compare: func(x, y *processRow) int { return cmp.Compare(y.worst(), x.worst()) }},
	}
}

// style is how the row's words and figures look.
func (w *processRow) style(t *style.Theme) canvas.Style {
	switch {
	case w.of == nil && w.idle == nil:
		return t.Bold()
	case w.state != processRuns:
		return t.Dimmed()
	}
	return t.Plain()
}

func (p *processesPage) draw(a canvas.Area, sc *scene) {
	// The table gets what it needs, up to half; the rest is for what is below.
	lines := len(p.table.rows)
	high := 1 + max(min(lines, (a.H-2)/2), min(lines, 3))
	p.table.draw(a.Sub(0, 0, a.W, high), sc, !p.onLower, func(h Host, _ *processRow, _ int) tea.Cmd { return p.choose(h) })
	p.drawLower(a.Sub(0, high, a.W, a.H-high), sc)
}

// stateMark is the sign of what became of a process.
func stateMark(s processState, t *style.Theme) (mark, word string, st canvas.Style) {
	switch s {
	case processReplaced:
		return "↻", "replaced", t.Dimmed()
	case processExited:
		return "■", "exited", t.Dimmed()
	case processFailed:
		return "✖", "failed", canvas.Style{FG: t.Crit, Attr: canvas.Bold}
	}
	return "●", "running", canvas.Style{FG: t.Good, Attr: canvas.Bold}
}

// markText is the sign before a row.
func markText(w *processRow, sc *scene) (string, canvas.Style) {
	switch {
	case w.idle != nil:
		return "", canvas.Style{}
	case w.of == nil:
		return "∑", sc.Theme.Bold()
	case w.halted() != nil:
		return "■", canvas.Style{FG: sc.Theme.Crit, Attr: canvas.Bold}
	}
	mark, _, st := stateMark(w.state, &sc.Theme)
	return mark, st
}

func (p *processesPage) drawTitle(a canvas.Area, w *processRow, sc *scene) {
	switch x := 0; {
	case w.idle != nil:
		text := fmt.Sprintf("%s %d  %s", canvas.Clean(sc.showable(w.idle.Title)), w.idle.PID, canvas.Clean(sc.showable(w.idle.Why)))
		a.Put(0, 0, canvas.Cut(text, a.W), sc.Theme.Dimmed())
	case w.of == nil:
		a.Put(0, 0, canvas.Cut("all processes", a.W), sc.Theme.Bold())
	default:
		if p.table.by == inTree {
			x = min(2*(len(w.of.path)-1), a.W/2)
		}
		a.Put(x, 0, canvas.Cut(sc.titleOf(&w.process), a.W-x), w.style(&sc.Theme))
	}
}

func pidText(w *processRow, sc *scene) (string, canvas.Style) {
	if w.of == nil {
		return "", w.style(&sc.Theme)
	}
	return fmt.Sprint(w.process.PID), w.style(&sc.Theme)
}

func rubyText(w *processRow, sc *scene) (string, canvas.Style) {
	if w.process.JIT != "" {
		return w.process.RubyVersion + " +" + w.process.JIT, sc.Theme.Dimmed()
	}
	return w.process.RubyVersion, sc.Theme.Dimmed()
}

func threadsText(w *processRow, sc *scene) (string, canvas.Style) {
	if w.threads == 0 {
		return "–", w.style(&sc.Theme)
	}
	return fmt.Sprint(w.threads), w.style(&sc.Theme)
}

// drawWorst writes the worst finding of a process, or how it ended; how many findings all have.
func (p *processesPage) drawWorst(a canvas.Area, w *processRow, sc *scene) {
	t := &sc.Theme
	switch {
	case w.of == nil && len(p.findings.rows) > 0:
		a.Put(0, 0, canvas.Cut(units.Plural(len(p.findings.rows), "finding", "findings"), a.W), t.Bold())
	case w.of == nil:
	case w.end != "":
		end := w.end
		if e := w.of.store.State().End; canvas.Width(end) > a.W && e.AtNS != 0 && w.state != processFailed {
			_, word, _ := stateMark(w.state, t)
			end = word + " " + w.process.WallTime(e.AtNS).Format("15:04")
		}
		a.Put(0, 0, canvas.Cut(end, a.W), t.Dimmed())
	case w.halted() != nil && canvas.Width(w.halted().finding.Title)+4 > a.W:
		text := "✖ " + w.halted().word
		if canvas.Width(text) > a.W {
			text = w.halted().word
		}
		a.Put(0, 0, canvas.Cut(text, a.W), canvas.Style{FG: t.Crit, Attr: canvas.Bold})
	case len(w.findings) > 0:
		p.drawFinding(a, w.findings[0], t, len(w.findings)-1)
	case w.figures.lockHz > 0:
		a.Put(0, 0, canvas.Cut("✓ none", a.W), t.Dimmed())
	}
}

// drawFinding writes a finding's title, with the sign of its severity; more is how many there are besides.
func (p *processesPage) drawFinding(a canvas.Area, f gvl.Finding, t *style.Theme, more int) {
	mark, st := findingMark(&f, t)
	suffix := ""
	if more > 0 {
		suffix = fmt.Sprintf(" +%d", more)
	}
	x := a.Put(0, 0, mark+" ", st)
	x = a.Put(x, 0, canvas.Cut(f.When()+f.Title, a.W-x-canvas.Width(suffix)), st)
	a.Put(x, 0, suffix, t.Dimmed())
}

func severityMark(s gvl.Severity, t *style.Theme) (mark string, color canvas.Color) {
	switch s {
	case gvl.SeverityWarn:
		return "▲", t.Warn
	case gvl.SeverityCrit:
		return "✖", t.Crit
	}
	return "ℹ", t.Accent
}

// drawTop draws the head lines of view 8: how all processes are, instead of the one that is shown.
func (p *processesPage) drawTop(a canvas.Area, sc *scene, head headView) {
	t, r := &sc.Theme, &sc.regions
	head.process.Title = fmt.Sprintf("%d processes", len(p.rows))
	if len(p.rows) == 1 {
		head.process.Title = "1 process"
	}
	head.whole, head.programs = true, p.programs()
	f := p.all.figures
	head.figures = &f
	head.state = store.SourceState{Done: p.done()}
	head.draw(a.Row(r.head), t)
	v := p.worst(sc)
	v.draw(a.Sub(0, r.findings, sc.width, r.findingRows), sc)
	drawGauges(a.Row(r.gauges), &f, new(served), t)
}

// worst are the findings of all processes, with the process in the title of each.
func (p *processesPage) worst(sc *scene) findingsView {
	v := findingsView{note: sc.findings.note}
	if len(p.findings.rows) > 0 {
		v.note = ""
		for _, x := range p.findings.rows {
			f, process := x.Finding, x.of.store.Process()
			f.Title = fmt.Sprintf("%s %d: %s", process.Title, process.PID, f.Title)
			v.list, v.of = append(v.list, f), append(v.of, x.of)
		}
	}
	return v
}

// programs are the names of the programs, those of most processes first: "puma ×4 · sidekiq".
func (p *processesPage) programs() string {
	times := make(map[string]int)
	var names []string
	for i := range p.rows {
		title := p.rows[i].process.Title
		if times[title]++; times[title] == 1 {
			names = append(names, title)
		}
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Or(cmp.Compare(times[y], times[x]), cmp.Compare(x, y)) })
	for i, n := range names {
		if times[n] > 1 {
			names[i] = fmt.Sprintf("%s ×%d", n, times[n])
		}
	}
	return strings.Join(names[:min(len(names), maxPrograms)], " · ")
}

// maxPrograms is how many names of programs stand in the head.
const maxPrograms = 4

// done reports whether none of the processes is sampled any more.
func (p *processesPage) done() bool {
	for i := range p.rows {
		if p.rows[i].state == processRuns && !p.rows[i].of.store.State().Done {
			return false
		}
	}
	return true
}
