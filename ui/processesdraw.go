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
)

// processColumns are the columns of the table of processes; 0: there is no room for it.
type processColumns struct{ title, pid, ruby, threads, held, lane, waiting, p99, cpu, gc, rss, finding int }

// leastFinding is how many columns a finding needs to be read: its sign, two words and how many there are besides.
const leastFinding = 19

// newProcessColumns shares w columns out; args: the programs' arguments stand behind their names.
func newProcessColumns(w int, args bool) processColumns {
	c := processColumns{title: 13, pid: 7, threads: 4, held: 5, waiting: 5, p99: 7, cpu: 6, rss: 7}
	switch {
	case w < 80:
		c = processColumns{title: 13, pid: 7, held: 5, waiting: 5, p99: 7, cpu: 6}
	case w >= 160:
		c = processColumns{title: 22, pid: 7, ruby: 13, threads: 7, held: 6, lane: laneColumns, waiting: 7, p99: 8, cpu: 6, gc: 5, rss: 7}
	case w >= wideWidth:
		c = processColumns{title: 16, pid: 7, ruby: 12, threads: 7, held: 6, waiting: 7, p99: 8, cpu: 6, gc: 5, rss: 7}
	}
	if w < wideWidth+16 { // a finding in words says more
		c.ruby = 0
	}
	c.finding = w - 4
	for _, n := range []int{c.title, c.pid, c.ruby, c.threads, c.held, c.lane, c.waiting, c.p99, c.cpu, c.gc, c.rss} {
		if n > 0 {
			c.finding -= n + 1
		}
	}
	for _, n := range []*int{&c.threads, &c.rss, &c.p99, &c.cpu} { // what other views and the lines above tell goes first
		if c.finding < leastFinding && *n > 0 {
			c.finding += *n + 1
			*n = 0
		}
	}
	if args {
		more := c.finding / 2
		c.title += more
		c.finding -= more
	}
	return c
}

func (p *processesPage) draw(a canvas.Area, m *scene) {
	t := &m.theme
	c := newProcessColumns(a.W, m.showsArgs())
	p.drawHead(a.Row(0), c, m)
	// The table gets what it needs, up to half; the rest is for what stands below.
	lines := 1 + len(p.rows) + len(p.idle)
	table := max(min(lines, (a.H-2)/2), min(lines, 3))
	body := a.Sub(0, 1, a.W, table)
	p.drawn = body.H
	i := p.index() + 1 // the first row is that of all processes
	p.top = max(min(p.top, i), i-body.H+1)
	p.top = max(0, min(p.top, lines-body.H))
	for y := range min(body.H, lines-p.top) {
		switch n := p.top + y; {
		case n == 0:
			p.drawAll(body.Row(y), m, c)
			m.onPress(body.Row(y), func(m *Model, _, _ int) tea.Cmd { p.choose(m, nil); return nil })
		case n <= len(p.rows):
			row := &p.rows[n-1]
			p.drawRow(body.Row(y), row, m, c)
			of := row.of
			m.onPress(body.Row(y), func(m *Model, _, _ int) tea.Cmd { p.choose(m, of); return nil })
		default:
			x := p.idle[n-1-len(p.rows)]
			text := fmt.Sprintf("%s %d  %s", canvas.Clean(m.showable(x.Title)), x.PID, canvas.Clean(m.showable(x.Why)))
			body.Put(3, y, canvas.Cut(text, body.W-4), t.dim())
		}
	}
	a.PutRight(0, hiddenRows(p.top, lines-p.top-body.H), canvas.Style{FG: t.Warn, Attr: canvas.Bold})
	p.drawLower(a.Sub(0, 1+table, a.W, a.H-1-table), m)
}

func (p *processesPage) drawHead(a canvas.Area, c processColumns, m *scene) {
	threads, waiting := "threads", "waiting"
	if c.threads < len(threads) {
		threads = "thr"
	}
	if c.waiting < len(waiting) {
		waiting = "wait"
	}
	drawTableHead(a, 3, m, p.sort, sortFound, []headColumn[processSort]{
		{width: c.title, text: "program", by: sortTitle},
		{width: c.pid, text: "pid", right: true},
		{width: c.ruby, text: "ruby"},
		{width: c.threads, text: threads, right: true},
		{width: c.held, text: "GVL", by: sortGVL, right: true},
		{width: c.lane, text: "held over the time"},
		{width: c.waiting, text: waiting, by: sortWaiting, right: true},
		{width: c.p99, text: "p99", by: sortP99, right: true},
		{width: c.cpu, text: "CPU", by: sortCPU, right: true},
		{width: c.gc, text: "GC", by: sortGC, right: true},
		{width: c.rss, text: "RSS", by: sortRSS, right: true},
		{width: c.finding, text: "worst finding", by: sortFinding},
	}, p.sortBy)
}

// stateMark is the sign of what became of a process.
func stateMark(s processState, t *Theme) (mark, word string, st canvas.Style) {
	switch s {
	case processReplaced:
		return "↻", "replaced", t.dim()
	case processExited:
		return "■", "exited", t.dim()
	case processFailed:
		return "✖", "failed", canvas.Style{FG: t.Crit, Attr: canvas.Bold}
	}
	return "●", "running", canvas.Style{FG: t.Good, Attr: canvas.Bold}
}

func (p *processesPage) drawRow(a canvas.Area, w *processRow, m *scene, c processColumns) {
	t := &m.theme
	mark, word, markStyle := stateMark(w.state, t)
	if w.stopped() {
		mark, markStyle = "■", canvas.Style{FG: t.Crit, Attr: canvas.Bold}
	}
	a.Put(1, 0, mark, markStyle)
	plain := t.text()
	if w.state != processRuns {
		plain = t.dim()
	}
	ruby := w.process.RubyVersion
	if w.process.JIT != "" {
		ruby += " +" + w.process.JIT
	}
	indent := 0
	if p.sort == sortFound { // the tree
		indent = min(2*(len(w.of.path)-1), c.title/2)
	}
	a.Put(3+indent, 0, canvas.Cut(m.titleOf(&w.process), c.title-indent), plain)
	p.drawFigures(a, w, m, c, plain, fmt.Sprint(w.process.PID), ruby)
	at := a.W - c.finding - 1
	switch {
	case w.end != "":
		end := w.end
		if e := w.of.store.State().End; canvas.Width(end) > c.finding && e.AtNS != 0 && w.state != processFailed {
			end = word + " " + w.process.WallTime(e.AtNS).Format("15:04")
		}
		a.Put(at, 0, canvas.Cut(end, c.finding), t.dim())
	case w.stopped() && canvas.Width(processStopped.Title)+4 > c.finding:
		text := "✖ stopped"
		if canvas.Width(text) > c.finding {
			text = "stopped"
		}
		a.Put(at, 0, canvas.Cut(text, c.finding), markStyle)
	case len(w.findings) > 0:
		p.drawFinding(a.Sub(at, 0, c.finding, 1), w.findings[0], t, len(w.findings)-1)
	case w.figures.lockHz > 0:
		a.Put(at, 0, canvas.Cut("✓ none", c.finding), t.dim())
	}
	if w.of == p.selected {
		markRow(a, m, !p.onLower)
	}
}

// drawAll draws the row of all processes: what can be added up is, of the rest the largest.
func (p *processesPage) drawAll(a canvas.Area, m *scene, c processColumns) {
	t := &m.theme
	a.Put(1, 0, "∑", t.bold())
	a.Put(3, 0, canvas.Cut("all processes", c.title), t.bold())
	p.drawFigures(a, &p.all, m, c, t.bold(), "", "")
	if n := len(p.findings); n > 0 {
		a.Put(a.W-c.finding-1, 0, canvas.Cut(units.Plural(n, "finding", "findings"), c.finding), t.bold())
	}
	if p.selected == nil {
		markRow(a, m, !p.onLower)
	}
}

func (p *processesPage) drawFigures(a canvas.Area, w *processRow, m *scene, c processColumns, plain canvas.Style, pid, ruby string) {
	t, f := &m.theme, &w.figures
	x := 3 + c.title + 1
	right := func(width int, text string, st canvas.Style) {
		if width > 0 {
			a.Put(x, 0, canvas.PadLeft(canvas.Cut(text, width), width), st)
			x += width + 1
		}
	}
	right(c.pid, pid, plain)
	if c.ruby > 0 {
		a.Put(x, 0, canvas.Cut(ruby, c.ruby), t.dim())
		x += c.ruby + 1
	}
	known := f.lockHz > 0
	value := func(text string) string {
		if !known {
			return "–"
		}
		return text
	}
	threads := fmt.Sprint(w.threads)
	if w.threads == 0 {
		threads = "–"
	}
	right(c.threads, threads, plain)
	held, waiting := plain, plain
	if f.held >= 0.85 && w.state == processRuns {
		held.FG = t.Warn
	}
	if f.waiting >= 0.5 && w.state == processRuns {
		waiting.FG, waiting.Attr = t.readable(t.States[gvl.Waiting]), canvas.Bold
	}
	right(c.held, value(units.Percent(f.held)), held)
	if c.lane > 0 {
		drawSpark(a, x, w.lane, 1, canvas.Style{FG: t.readable(t.States[gvl.Running])})
		x += c.lane + 1
	}
	right(c.waiting, value(fmt.Sprintf("%.1f", f.waiting)), waiting)
	right(c.p99, f.waitInWords(waitP99), plain)
	right(c.cpu, value(units.Percent(f.cpu)), plain)
	gc := "–"
	if f.gcKnown {
		gc = units.Percent(f.gc)
	}
	right(c.gc, gc, plain)
	rss := "–"
	if f.rss > 0 {
		rss = units.Bytes(f.rss)
	}
	right(c.rss, rss, plain)
}

// drawFinding writes a finding's title, with the sign of its severity; more is how many there are besides.
func (p *processesPage) drawFinding(a canvas.Area, f gvl.Finding, t *Theme, more int) {
	mark, color := severityMark(f.Severity, t)
	st := canvas.Style{FG: color, Attr: canvas.Bold}
	suffix := ""
	if more > 0 {
		suffix = fmt.Sprintf(" +%d", more)
	}
	x := a.Put(0, 0, mark+" ", st)
	x = a.Put(x, 0, canvas.Cut(f.Title, a.W-x-canvas.Width(suffix)), st)
	a.Put(x, 0, suffix, t.dim())
}

func severityMark(s gvl.Severity, t *Theme) (mark string, color canvas.Color) {
	switch s {
	case gvl.SeverityWarn:
		return "▲", t.Warn
	case gvl.SeverityCrit:
		return "✖", t.Crit
	}
	return "ℹ", t.Accent
}

// drawTop draws the head lines of view 8: how all processes are, instead of the one that is shown.
func (p *processesPage) drawTop(a canvas.Area, m *scene, head headView) {
	t, r := &m.theme, &m.regions
	head.process.Title = fmt.Sprintf("%d processes", len(p.rows))
	if len(p.rows) == 1 {
		head.process.Title = "1 process"
	}
	head.whole, head.programs = true, p.programs()
	f := p.all.figures
	head.figures = &f
	head.state = SourceState{Done: p.done()}
	head.draw(a.Row(r.head), t)
	v := p.worst(m)
	v.draw(a.Sub(0, r.findings, m.width, r.findingRows), t)
	drawGauges(a.Row(r.gauges), &f, t)
}

// worst are the findings of all processes, with the process in the title of each.
func (p *processesPage) worst(m *scene) findingsView {
	v := findingsView{note: m.findings.note}
	if len(p.findings) > 0 {
		v.note = ""
		for i := range p.findings {
			f := p.findings[i].Finding
			process := p.findings[i].of.store.Process()
			f.Title = fmt.Sprintf("%s %d: %s", process.Title, process.PID, f.Title)
			v.list = append(v.list, f)
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
