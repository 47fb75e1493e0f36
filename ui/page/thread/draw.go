package thread

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// threadLabelW is the width of the labels to the left of the thread's lanes, in columns of the screen. A lane is a row
// that shows something over time.
const threadLabelW = 9

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	if p.row == nil {
		a.Put(3, a.H/2, "this thread is not in the time shown   ← → another thread, esc the table", t.Dimmed())
		return
	}
	p.drawSummary(a.Row(0), sc)
	if s := sc.Opened.Text(sc, p.row.ID); s != "" {
		x := a.Put(1, 1, canvas.Cut(s, a.W-2), sc.Theme.Bold())
		if now := sc.RequestOf(p.row.ID); now != "" {
			a.Put(x+2, 1, canvas.Cut("now "+now, a.W-x-3), sc.Theme.Dimmed())
		}
		a = a.Sub(0, 1, a.W, a.H-1)
	} else if p.drawServing(a.Row(1), sc) {
		a = a.Sub(0, 1, a.W, a.H-1)
	}
	lanes := a.Sub(threadLabelW, 1, a.W-threadLabelW-1, 3)
	for y, s := range []string{"state", "holds", "waits"} {
		a.Put(1, 1+y, s, t.Dimmed())
	}
	p.drawLanes(lanes, sc)
	ticks := widget.Timeline{FromNS: p.fromNS, ToNS: p.toNS, Cells: len(p.cells)}
	axis := a.Sub(threadLabelW, 4, lanes.W, 1)
	end := sc.NowWord()
	axis.PutRight(0, end, t.Dimmed())
	ticks.DrawTicks(axis, 0, axis.W-len(end)-1, t.Dimmed())
	left := a.W * 45 / 100
	stackH := a.H - 5
	waitsH := 0
	if n := len(p.Waits.Longest); (n > 0 || p.Waits.Short > 0) && stackH >= 14 {
		waitsH = min(max(n, 1)+1, stackH/3)
	} else if p.Waits.Count() > 0 && stackH >= 8 { // there is no room for the list of waits, so write only a summary
		stackH--
		a.Row(a.H-1).Fill('─', t.Rule())
		x := a.Put(1, a.H-1, " waits for the GVL ", t.Bold())
		a.Put(x, a.H-1, canvas.Cut(p.WaitsText(), a.W-x-2)+" ", t.Dimmed())
	}
	stack := min(stackH-waitsH, max(len(p.Frames.Rows), 1)+2)
	p.drawStack(a.Sub(0, 5, left, stack), sc)
	p.drawWaits(a.Sub(0, 5+stack, left, waitsH), sc)
	p.drawSource(a.Sub(left+1, 5, a.W-left-1, stackH), sc)
}

// drawSummary draws the thread's name, its state, and how much of its time it spent in each state.
func (p *Page) drawSummary(a canvas.Area, sc *scene.Scene) {
	t, th := &sc.Theme, p.row
	info, _ := sc.Dict.Thread(th.ID)
	run := th.Totals[gvl.Running] + th.Totals[gvl.Stalled] + th.Totals[gvl.GC]
	var sum int64
	for _, ns := range th.Totals {
		sum += ns
	}
	right := fmt.Sprintf("run %s  wait %s  io %s", units.Percent(style.Share(run, sum)), units.Percent(style.Share(th.Totals[gvl.Waiting], sum)), units.Percent(style.Share(th.Totals[gvl.IO], sum)))
	if n := p.Waits.Count(); n > 0 && a.W >= 80 {
		right += fmt.Sprintf("  %s waits, p99 %s", units.Count(n), p.Waits.P99())
	}
	at := a.W - 1 - canvas.Width(right)
	a.Put(at, 0, right, t.Plain())
	x := a.Put(1, 0, canvas.CutName(th.Name, min(a.W/4, at-2)), t.Bold())
	state, st := "", t.Dimmed()
	switch {
	case th.Known:
		state = th.Forms(sc.Dict)[0]
		if fd := th.State.Detail.FD; fd >= 0 {
			state += fmt.Sprintf(" (fd %d)", fd)
		}
		if !strings.Contains(state, " ms") && !strings.Contains(state, " s") {
			state += " for " + th.State.Lasted().Duration()
		}
		st = canvas.Style{FG: t.Readable(t.States[th.State.State]), Attr: canvas.Bold}
		if th.Idle != "" {
			st = t.Bold()
		}
	case !th.Seen:
		state = "ended"
	}
	// The thread's ids are less important than its state. So they get only the room that is left after the state's
	// text.
	var ids []string
	if info.TID != 0 {
		ids = append(ids, fmt.Sprintf("tid %d", info.TID))
	}
	if th.Ractor > 1 || a.W >= scene.WideWidth {
		ids = append(ids, fmt.Sprintf("ractor %d", th.Ractor))
	}
	for _, id := range ids {
		if x+2+canvas.Width(id)+2+canvas.Width(state)+2 <= at {
			x = a.Put(x+2, 0, id, t.Dimmed())
		}
	}
	if room := at - x - 4; room > 0 {
		a.Put(x+2, 0, canvas.Cut(state, room), st)
	}
}

// drawServing draws the thread's request or job, its age, and its database statement. It returns false if no request is
// known.
func (p *Page) drawServing(a canvas.Area, sc *scene.Scene) bool {
	of := sc.RequestOf(p.row.ID)
	if of == "" {
		return false
	}
	t := &sc.Theme
	x := a.Put(1, 0, canvas.Cut(of, a.W-2), t.Bold())
	at := sc.Served.ServingOf[p.row.ID]
	w := sc.Dict.Work(at.Work)
	var parts []string
	for i := range sc.Served.Running {
		if q := &sc.Served.Running[i]; q.Work.Number == w.Number {
			row := widget.NewRequestRow(sc, q, slices.IndexFunc(sc.Threads, func(t scene.Thread) bool { return t.ID == q.Thread }))
			parts = append(parts, "for "+row.Age())
			if s := row.Values(sc); s != "" {
				parts = append(parts, s)
			}
		}
	}
	if s := sc.Asks(at); s != "" {
		parts = append(parts, s)
	}
	a.Put(x+2, 0, canvas.Cut(strings.Join(parts, "  "), a.W-x-3), t.Dimmed())
	return true
}

// drawLanes draws the thread's states over time. Below them it draws two lanes (rows over time). The first shows in
// which share of the time the thread held the GVL. The second shows in which share it waited for the GVL.
func (p *Page) drawLanes(a canvas.Area, sc *scene.Scene) {
	t, beside := &sc.Theme, style.NewShades()
	for x := range a.W {
		i := widget.CellAt(x, len(p.cells), a.W)
		if i < 0 || p.cells[i].Listed() == 0 {
			continue
		}
		c := &p.cells[i]
		beside.GoTo(i, p.fromNS, (p.toNS-p.fromNS)/int64(len(p.cells)))
		r, st := t.StateCell(c, sc.Opt.ASCII, beside)
		a.Rune(x, 0, r, st)
		listed := c.Listed()
		held := c.NS[gvl.Running] + c.NS[gvl.Stalled] + c.NS[gvl.GC]
		style.DrawColumn(a.Row(1), x, style.Share(held, listed), canvas.Style{FG: t.Readable(t.States[gvl.Running])})
		style.DrawColumn(a.Row(2), x, style.Share(c.NS[gvl.Waiting], listed), canvas.Style{FG: t.Readable(t.States[gvl.Waiting])})
	}
}

func (p *Page) drawStack(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	head := fmt.Sprintf(" stack %s: %s ", sc.StackWord(), units.Plural(p.Depth, "frame", "frames"))
	if p.Native > 0 {
		head += fmt.Sprintf("+ %d in C ", p.Native)
	}
	t.Heading(a, head)
	rows := a.Sub(0, 1, a.W, a.H-1)
	if len(p.Frames.Rows) == 0 {
		rows.Put(2, 0, "no stack was read", t.Dimmed())
		return
	}
	p.Frames.Draw(rows, sc, func(row canvas.Area, f StackFrame, selected bool) {
		st, label, where := t.Plain(), f.Label, ""
		if f.C || f.Folded {
			st = t.Dimmed()
		} else if f.Path != "" {
			label, where = gvl.AddLine(label, style.LineIn(f.Path, f.Line, f.Uncertain))
		}
		if !f.Folded && !f.Native {
			row.Put(2, 0, "■", canvas.Style{FG: t.Flame[style.OriginOf(f.Frame)]})
		}
		labelW := min(max(row.W*6/10, row.W-5-canvas.Width(where)), row.W-5)
		x := row.Put(4, 0, flamegraph.LabelFit(canvas.Clean(label), labelW), st)
		if room := row.W - x - 3; room > 8 {
			row.Put(x+2, 0, canvas.CutLeft(where, room), t.Dimmed())
		}
		if selected {
			widget.MarkRow(row, sc, true)
		}
	}, func(h scene.Host, _ StackFrame, _ int) tea.Cmd { return p.choose(h) })
}

// WaitsText returns a text about the thread's waits for the GVL: how long they were in the time on the screen. It also
// names three parts of the waiting time in which the thread was not in the queue: the hand-over, the end of a time
// slice, the lack of a CPU. It says how large these parts are, as shares of all waiting since the start.
func (p *Page) WaitsText() string {
	w := &p.Waits
	text := fmt.Sprintf("p50 %s  p90 %s  max %s ", w.InWords(0.5), w.InWords(0.9), w.InWords(1))
	all := p.kinds.QueueNS + p.kinds.HandoverNS + p.kinds.YieldNS + p.kinds.CPUSlotNS
	for _, k := range []struct {
		ns   int64
		what string
	}{{p.kinds.HandoverNS, "hand-over"}, {p.kinds.YieldNS, "yield"}, {p.kinds.RunDelayNS, "no CPU"}} {
		if s := style.Share(k.ns, all); s >= 0.01 {
			text += fmt.Sprintf(" %s %s", k.what, units.Percent(s))
		}
	}
	if p.noCPU >= 0.01 {
		text += fmt.Sprintf("  at work without a CPU %s", units.Percent(p.noCPU))
	}
	return text
}

// shortText returns the text for a thread whose waits are all too short for the list. A wait is too short if it is
// below the list's threshold.
func (p *Page) shortText(sc *scene.Scene) string {
	return fmt.Sprintf("all %s are shorter than %s (--wait-threshold)", units.Count(int64(p.Waits.Short)), units.Duration(int64(sc.Opt.WaitThreshold)))
}

// fitWords shortens a line of figures to w columns. It removes whole figures from the end of the line.
func fitWords(s string, w int) string {
	for canvas.Width(s) > w {
		i := strings.LastIndex(strings.TrimRight(s, " "), "  ")
		if i < 0 {
			break
		}
		s = s[:i] + " "
	}
	return s
}

func (p *Page) drawWaits(a canvas.Area, sc *scene.Scene) {
	if a.H < 2 {
		return
	}
	t := &sc.Theme
	title := " longest waits for the GVL "
	if p.partly {
		title = " longest waits of the last kept "
	}
	if len(p.Waits.Longest) > 0 && !slices.ContainsFunc(p.Waits.Longest, func(e store.WaitEvent) bool { return !e.Exact }) {
		title = " longest waits for the GVL, exact "
	}
	x := t.Heading(a, title)
	a.Put(x, 0, canvas.Cut(fitWords(p.WaitsText(), a.W-x-2), a.W-x-1), t.Dimmed())
	if len(p.Waits.Longest) == 0 {
		a.Put(2, 1, canvas.Cut(p.shortText(sc), a.W-3), t.Dimmed())
		return
	}
	barX := 39
	if strings.HasSuffix(title, "exact ") {
		barX = 46 // the rows of exact waits have a longer text, because they also name a thread
	}
	most := p.Waits.Longest[0].Length().NS
	for y, e := range p.Waits.Longest[:min(a.H-1, len(p.Waits.Longest))] {
		row := a.Row(1 + y)
		at := sc.Process.WallTime(e.FromNS()).Format(widget.ClockOf(&e, sc.Width))
		x := row.Put(2, 0, at, t.Dimmed())
		x = row.Put(x+1, 0, canvas.PadLeft(e.Length().Duration(), 8), canvas.Style{FG: t.Readable(t.States[gvl.Waiting]), Attr: canvas.Bold})
		why := ""
		if e.After != gvl.Unknown {
			why = "after " + e.After.String()
		}
		if e.First != 0 {
			why = "behind " + canvas.Clean(gvl.ThreadName(e.First, sc.Dict))
		}
		row.Put(x+1, 0, canvas.Cut(why, barX-x-2), t.Dimmed())
		for i := range int(style.Share(e.Length().NS, most) * float64(max(row.W-barX, 0))) {
			row.Rune(barX+i, 0, '▇', canvas.Style{FG: t.States[gvl.Waiting]})
		}
	}
}

// drawSource draws the source code around the line of the selected frame. Beside each line it draws the share of the
// thread's time that the thread spent there.
func (p *Page) drawSource(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	a.Row(0).Fill('─', t.Rule())
	f := p.Frame()
	if f == nil {
		return
	}
	path := f.File()
	a.Put(1, 0, canvas.CutLeft(" "+path+" ", a.W-2), t.Bold())
	file := p.sources.get(f.AbsolutePath)
	rows := a.Sub(0, 1, a.W, a.H-1)
	note := ""
	switch {
	case f.C && p.Frames.Rows[p.Frames.Index()].Native:
		note = "a C function, called by the frames below"
	case f.C:
		note = "a C function: its caller is the next frame"
	case f.AbsolutePath == "":
		note = "Ruby names no file for this code"
	case f.AbsolutePath[0] != '/':
		note = "directories are hidden, so the file is not read; the lines that were seen:"
	case sc.Opt.Replay && file == nil:
		note = "a recording holds no source; the lines that were seen:"
	case file == nil && (sc.Source.Ended || sc.Source.Err != nil):
		note = "the process is gone, and its files with it; the lines that were seen:"
	case file == nil || file.pending:
		note = "reading …"
	case file.Err != nil:
		note = file.Err.Error()
	case int(f.Line) > len(file.Lines):
		note = fmt.Sprintf("the file has %d lines now: it changed", len(file.Lines))
	}
	if note != "" {
		lines, _ := style.Wrap(note, rows.W-2, 2)
		for y, s := range lines {
			rows.Put(1, y, s, t.Dimmed())
		}
		p.drawSeen(rows.Sub(0, len(lines), rows.W, rows.H-len(lines)), f.AbsolutePath, f.Line, t)
		return
	}
	if file.Newer {
		rows.Put(1, 0, canvas.Cut("changed after the program started: these need not be the lines that run", rows.W-2), canvas.Style{FG: t.Warn, Attr: canvas.Bold})
		rows = rows.Sub(0, 1, rows.W, rows.H-1)
	}
	from := max(0, min(int(f.Line)-1-rows.H/2, len(file.Lines)-rows.H))
	for y := range min(rows.H, len(file.Lines)-from) {
		p.drawLine(rows.Row(y), f.AbsolutePath, int32(from+y+1), f.Line, file.Lines[from+y], t)
	}
}

// drawSeen lists the numbers of the lines in which the thread spent time. It is used if the source file cannot be read.
func (p *Page) drawSeen(a canvas.Area, path string, current int32, t *style.Theme) {
	lines := p.Heat.linesOf(path)
	for y := range min(a.H, len(lines)) {
		p.drawLine(a.Row(y), path, lines[y], current, "", t)
	}
}

// drawLine draws one line of source code: its number, its share of the thread's time, and its text.
func (p *Page) drawLine(a canvas.Area, path string, line, current int32, text string, t *style.Theme) {
	const numberW = 6
	barW := 6
	if text == "" { // without the source, the bar can be wider
		barW = max(barW, a.W/3)
	}
	st := t.Dimmed()
	if line == current {
		a.Put(0, 0, "▸", canvas.Style{FG: t.Accent, Attr: canvas.Bold})
		st = t.Bold()
	}
	a.Put(1, 0, canvas.PadLeft(fmt.Sprint(line), numberW-1), st)
	s := style.Share(p.Heat.Lines[CodeLine{path, line}], p.Heat.Total)
	label := ""
	if s > 0 {
		label = units.Percent(s)
		hot := t.Background.Mix(t.Flame[sampler.OriginApp], 0.35+0.65*s)
		bar := a.Sub(numberW+1, 0, barW, 1)
		bar.Fill(' ', canvas.Style{})
		style.DrawBar(bar, s, hot)
	}
	x := numberW + 1 + barW + 1
	if s > 0 {
		a.Put(a.W-canvas.Width(label)-1, 0, label, canvas.Style{FG: t.Readable(t.Flame[sampler.OriginApp]), Attr: canvas.Bold})
	}
	code := t.Plain()
	if line == current {
		code = t.Bold()
	}
	a.Put(x, 0, canvas.Cut(text, a.W-x-canvas.Width(label)-2), code)
	if line == current {
		t.PutGround(a)
	}
}
