package processes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// leastFinding is the least width at which the text of a finding is useful. It has room for the finding's sign, two
// words and the number of other findings.
const leastFinding = 19

// Columns are the columns of the table.
func (p *Page) Columns() []widget.Column[*processRow] {
	// figure makes the function that draws one figure of a row. It shows "–" until the process has been read for the
	// first time.
	figure := func(of func(f *scene.Figures) string) func(*processRow, *scene.Scene) (string, canvas.Style) {
		return func(w *processRow, sc *scene.Scene) (string, canvas.Style) {
			if w.figures.LockHz == 0 {
				return "–", w.style(&sc.Theme)
			}
			return of(&w.figures), w.style(&sc.Theme)
		}
	}
	by := func(of func(f *scene.Figures) float64) func(x, y *processRow) int {
		return func(x, y *processRow) int { return cmp.Compare(of(&y.figures), of(&x.figures)) }
	}
	return []widget.Column[*processRow]{
		{Width: widget.Wide(1), Text: markText},
		{Title: "program", Width: widget.Wide(13, scene.WideWidth, 16, 160, 22), Widens: showsArgs, Draw: p.drawTitle, Order: "name",
			Compare: func(x, y *processRow) int { return strings.Compare(x.Process.Name(), y.Process.Name()) },
			Spans:   func(w *processRow) bool { return w.idle != nil }},
		{Title: "pid", Width: widget.Wide(7), Right: true, Text: pidText},
		// On screens narrower than WideWidth+16 this column is hidden, because the text of the finding needs the
		// column's room.
		{Title: "ruby", Width: widget.Wide(0, scene.WideWidth+16, 12, 160, 13), Text: rubyText},
		// On narrow screens, some columns are left out. Columns whose figures are also in other views, or in the lines
		// above the table, are left out first.
		{Title: "threads", Short: "thr", Width: widget.Wide(0, 80, 4, scene.WideWidth, 7), Drop: 1, Right: true, Text: threadsText},
		{Title: "GVL", Width: widget.Wide(5, scene.WideWidth, 6), Right: true, Order: "GVL", Compare: by(func(f *scene.Figures) float64 { return f.Held }),
			Text: func(w *processRow, sc *scene.Scene) (string, canvas.Style) {
				text, st := figure(func(f *scene.Figures) string { return f.Told(sampler.FigureStates, units.Percent(f.Held)) })(w, sc)
				if w.figures.Held >= 0.85 && w.state == processRuns {
					st.FG = sc.Theme.Warn
				}
				return text, st
			}},
		{Title: "held over the time", Width: widget.Wide(0, 160, laneColumns), Draw: func(a canvas.Area, w *processRow, sc *scene.Scene) {
			style.DrawSpark(a, 0, w.lane, 1, canvas.Style{FG: sc.Theme.Readable(sc.Theme.States[gvl.Running])})
		}},
		{Title: "waiting", Short: "wait", Width: widget.Wide(5, scene.WideWidth, 7), Right: true, Order: "waiting",
			Compare: by(func(f *scene.Figures) float64 { return f.Waiting }),
			Text: func(w *processRow, sc *scene.Scene) (string, canvas.Style) {
				text, st := figure(func(f *scene.Figures) string { return f.Told(sampler.FigureStates, fmt.Sprintf("%.1f", f.Waiting)) })(w, sc)
				if w.figures.Waiting >= 0.5 && w.state == processRuns {
					st.FG, st.Attr = sc.Theme.Readable(sc.Theme.States[gvl.Waiting]), canvas.Bold
				}
				return text, st
			}},
		{Title: "backlog", Short: "bklg", Width: widget.Wide(0, 100, 5, scene.WideWidth, 8), Drop: 1, Right: true, Order: "backlog",
			Compare: by(func(f *scene.Figures) float64 { return float64(f.Backlog) }), Text: backlogText},
		{Title: "p99", Width: widget.Wide(7, scene.WideWidth, 8), Drop: 3, Right: true, Order: "waits p99",
			Compare: by(func(f *scene.Figures) float64 { return float64(f.WaitLengths[store.WaitP99].NS) }),
			Text: func(w *processRow, sc *scene.Scene) (string, canvas.Style) {
				return w.figures.WaitText(store.WaitP99), w.style(&sc.Theme)
			}},
		{Title: "CPU", Width: widget.Wide(6), Drop: 4, Right: true, Order: "CPU", Compare: by(func(f *scene.Figures) float64 { return f.CPU }),
			Text: figure(func(f *scene.Figures) string { return units.Percent(f.CPU) })},
		{Title: "GC", Width: widget.Wide(0, scene.WideWidth, 5), Right: true, Order: "GC", Compare: by(func(f *scene.Figures) float64 { return f.GC }),
			Text: func(w *processRow, sc *scene.Scene) (string, canvas.Style) {
				if !w.figures.GCKnown {
					return "–", w.style(&sc.Theme)
				}
				return w.figures.Told(sampler.FigureStates, units.Percent(w.figures.GC)), w.style(&sc.Theme)
			}},
		{Title: "RSS", Width: widget.Wide(0, 80, 7), Drop: 2, Right: true, Order: "RSS",
			Compare: by(func(f *scene.Figures) float64 { return float64(f.RSS) }),
			Text: func(w *processRow, sc *scene.Scene) (string, canvas.Style) {
				if w.figures.RSS <= 0 {
					return "–", w.style(&sc.Theme)
				}
				return units.Bytes(w.figures.RSS), w.style(&sc.Theme)
			}},
		{Title: "worst finding", Width: widget.Wide(widget.Rest), Least: leastFinding, Draw: p.drawWorst, Order: "worst finding",
			Compare: func(x, y *processRow) int { return cmp.Compare(y.worst(), x.worst()) }},
	}
}

// backlogText returns how many connections and requests wait for a thread of the process.
func backlogText(w *processRow, sc *scene.Scene) (string, canvas.Style) {
	st := w.style(&sc.Theme)
	if !w.figures.BacklogKnown {
		return "–", st
	}
	if w.figures.Backlog > 0 && w.state == processRuns {
		st.FG, st.Attr = sc.Theme.Warn, canvas.Bold
	}
	return units.Count(w.figures.Backlog), st
}

// style returns the style for the words and figures of a row. It depends on the state of the process.
func (w *processRow) style(t *style.Theme) canvas.Style {
	switch {
	case w.Of == nil && w.idle == nil:
		return t.Bold()
	case w.state != processRuns:
		return t.Dimmed()
	}
	return t.Plain()
}

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
	// The table gets as many rows as it needs, up to half of the area. The view below the table gets all other rows.
	lines := len(p.Table.Rows)
	high := 1 + max(min(lines, (a.H-2)/2), min(lines, 3))
	p.Table.Draw(a.Sub(0, 0, a.W, high), sc, !p.onLower, func(h scene.Host, _ *processRow, _ int) tea.Cmd { return p.choose(h) })
	p.drawLower(a.Sub(0, high, a.W, a.H-high), sc)
}

// stateMark returns the sign, the word and the style that show the state of a process.
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

// markText returns the sign before a row.
func markText(w *processRow, sc *scene.Scene) (string, canvas.Style) {
	switch {
	case w.idle != nil:
		return "", canvas.Style{}
	case w.Of == nil:
		return "∑", sc.Theme.Bold()
	case w.halted() != nil:
		return "■", canvas.Style{FG: sc.Theme.Crit, Attr: canvas.Bold}
	}
	mark, _, st := stateMark(w.state, &sc.Theme)
	return mark, st
}

// shortPart shortens the part of a process's title that says how busy it is: "[3 of 5 busy]" becomes "3/5".
var shortPart = strings.NewReplacer("[", "", " of ", "/", " busy]", "")

func (p *Page) drawTitle(a canvas.Area, w *processRow, sc *scene.Scene) {
	switch x := 0; {
	case w.idle != nil:
		text := fmt.Sprintf("%s %d  %s", canvas.Clean(sc.Showable(w.idle.Title)), w.idle.PID, canvas.Clean(sc.Showable(w.idle.Why)))
		a.Put(0, 0, canvas.Cut(text, a.W), sc.Theme.Dimmed())
	case w.Of == nil:
		a.Put(0, 0, canvas.Cut("all processes", a.W), sc.Theme.Bold())
	default:
		if p.Table.By == inTree {
			x = min(2*(len(w.Of.Path)-1), a.W/2)
		}
		title := titleOf(sc, &w.Process)
		if canvas.Width(title) > a.W-x && !showsArgs(sc) {
			title = w.Process.Title + " " + shortPart.Replace(w.Process.Part)
		}
		a.Put(x, 0, canvas.CutName(title, a.W-x), w.style(&sc.Theme))
	}
}

func pidText(w *processRow, sc *scene.Scene) (string, canvas.Style) {
	if w.Of == nil {
		return "", w.style(&sc.Theme)
	}
	return fmt.Sprint(w.Process.PID), w.style(&sc.Theme)
}

func rubyText(w *processRow, sc *scene.Scene) (string, canvas.Style) {
	if w.Process.JIT != "" {
		return w.Process.RubyVersion + " +" + w.Process.JIT, sc.Theme.Dimmed()
	}
	return w.Process.RubyVersion, sc.Theme.Dimmed()
}

func threadsText(w *processRow, sc *scene.Scene) (string, canvas.Style) {
	if w.threads == 0 {
		return "–", w.style(&sc.Theme)
	}
	return fmt.Sprint(w.threads), w.style(&sc.Theme)
}

// drawWorst writes the worst finding of a process, and how many other findings the process has. If the process has
// ended, it writes how it ended.
func (p *Page) drawWorst(a canvas.Area, w *processRow, sc *scene.Scene) {
	t := &sc.Theme
	switch {
	case w.Of == nil && p.worst != nil:
		in := p.worstIn
		if canvas.Width("✖ "+p.worst.When()+p.worst.Title+in) > a.W {
			in = p.worstShort
		}
		p.drawFinding(a, *p.worst, t, in)
	case w.Of == nil:
	case w.end != "":
		end := w.end
		if e := w.Of.Store.State().End; canvas.Width(end) > a.W && e.AtNS != 0 && w.state != processFailed {
			_, word, _ := stateMark(w.state, t)
			end = word + " " + w.Process.WallTime(e.AtNS).Format("15:04")
		}
		a.Put(0, 0, canvas.Cut(end, a.W), t.Dimmed())
	case w.halted() != nil && canvas.Width(w.halted().Finding.Title)+4 > a.W:
		text := "✖ " + w.halted().Word
		if canvas.Width(text) > a.W {
			text = w.halted().Word
		}
		a.Put(0, 0, canvas.Cut(text, a.W), canvas.Style{FG: t.Crit, Attr: canvas.Bold})
	case len(w.findings) > 0:
		more := ""
		if n := len(w.findings) - 1; n > 0 {
			more = fmt.Sprintf(" +%d", n)
		}
		p.drawFinding(a, w.findings[0], t, more)
	case w.figures.LockHz > 0:
		a.Put(0, 0, canvas.Cut("✓ none", a.W), t.Dimmed())
	}
}

// drawFinding writes a finding's title after the sign of its severity. After the title comes suffix. A long title is
// cut, but suffix never is.
func (p *Page) drawFinding(a canvas.Area, f findings.Finding, t *style.Theme, suffix string) {
	mark, st := widget.FindingMark(&f, t)
	x := a.Put(0, 0, mark+" ", st)
	x = a.Put(x, 0, canvas.Cut(f.When()+f.Title, a.W-x-canvas.Width(suffix)), st)
	a.Put(x, 0, suffix, t.Dimmed())
}

// DrawTop draws the first lines of view 8, which are about all processes. In other views these lines are about one
// process.
func (p *Page) DrawTop(a canvas.Area, sc *scene.Scene, head widget.Head) {
	t, r := &sc.Theme, &sc.Regions
	head.Process.Title, head.Process.Part = fmt.Sprintf("%d processes", len(p.rows)), ""
	if len(p.rows) == 1 {
		head.Process.Title = "1 process"
	}
	head.Whole, head.Programs = true, p.programs()
	f := p.all.figures
	head.Figures = &f
	head.State = store.SourceState{Done: p.done()}
	head.Draw(a.Row(r.Head), t)
	v := p.Worst(sc)
	widget.DrawFindings(&v, a.Sub(0, r.Findings, sc.Width, r.FindingRows), sc)
	widget.DrawGauges(a.Row(r.Gauges), &f, new(scene.Served), t)
}

// Worst returns the findings of all processes. The title of each finding begins with the name of its process.
func (p *Page) Worst(sc *scene.Scene) scene.Findings {
	v := scene.Findings{Note: sc.Findings.Note}
	if len(p.findings.Rows) > 0 {
		v.Note = ""
		for _, x := range p.findings.Rows {
			f, process := x.Finding, x.of.Store.Process()
			f.Title = fmt.Sprintf("%s %d: %s", process.Name(), process.PID, f.Title)
			v.List, v.Owners = append(v.List, f), append(v.Owners, x.of)
		}
	}
	return v
}

// programs returns which programs run, with the number of processes. The most frequent comes first: "puma ×4 ·
// sidekiq".
func (p *Page) programs() string {
	times := make(map[string]int)
	var names []string
	for i := range p.rows {
		title := p.rows[i].Process.Title
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

// maxPrograms limits the number of program names in the first line of the screen.
const maxPrograms = 4

// done reports whether the sampling of all processes has ended.
func (p *Page) done() bool {
	for i := range p.rows {
		if p.rows[i].state == processRuns && !p.rows[i].Of.Store.State().Done {
			return false
		}
	}
	return true
}
