package memory

import (
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

func (p *Page) Draw(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	if sc.Opt.Heap != nil {
		a = p.drawParts(a, sc)
	}
	if p.part != collectorPart {
		p.drawHeap(a, sc)
		return
	}
	if !p.known {
		a.Put(3, a.H/2, "nothing measured yet", t.Dimmed())
		return
	}
	if p.Counts.Last != nil {
		if text := p.Counts.Last.GrownText(); text != "" {
			n := putWrapped(a, 0, text, canvas.Style{FG: t.Warn})
			a = a.Sub(0, n, a.W, a.H-n)
		}
	}
	figures := p.Figures(sc)
	columns := 1
	if a.W >= scene.WideWidth {
		columns = 2
	}
	payers := 0
	if len(p.Payers) > 0 {
		payers = 1 + min(len(p.Payers), mostPayers)
	}
	free := a.H - len(p.series)
	if least := min(payers, 1+leastPayers); payers > 0 && free-rowsOf(figures, columns) < payers {
		payers = max(free-rowsOf(figures, columns), least)
	}
	figures = fitFigures(figures, (free-payers-1)*columns)
	free -= payers + rowsOf(figures, columns)

	y := 0
	for i, high := range p.heights(free) {
		p.drawSeries(a.Sub(0, y, a.W, high), &p.series[i], t)
		y += high
	}
	p.drawFigures(a.Sub(0, y, a.W, min(rowsOf(figures, columns), a.H-y-payers)), figures, columns, sc)
	y += rowsOf(figures, columns)
	if payers > 0 {
		p.drawPayers(a.Sub(0, min(y, a.H-payers), a.W, a.H-min(y, a.H-payers)), t)
	}
}

const (
	// mostPayers limits the rows in the list of code whose threads did the collector's work (payers). On a small screen
	// the limit is leastPayers.
	mostPayers, leastPayers = 10, 3
	// levelRows is the least number of rows in which the curve of a level, such as memory, can be read. rateRows is
	// this number for the curve of a rate. mostLevelRows is the largest number of rows of a curve, used if there is
	// room.
	levelRows, rateRows, mostLevelRows = 3, 2, 8
)

// rowsOf returns how many rows of the screen a list of figures takes in this number of columns, with its heading.
func rowsOf(figures []figure, columns int) int { return 1 + (len(figures)+columns-1)/columns }

// heights returns how many rows of the screen each series of values gets. Each series gets at least one row. The
// parameter free is how many rows are left after that. First, levels (curves) get up to levelRows each. Then rates get
// up to rateRows each. If rows are still left, levels get them.
func (p *Page) heights(free int) []int {
	out := make([]int, len(p.series))
	for i := range out {
		out[i] = 1
	}
	for _, step := range []struct {
		level bool
		most  int
	}{{true, levelRows}, {false, rateRows}, {true, mostLevelRows}} {
		for rows := 2; rows <= step.most; rows++ {
			for i := range p.series {
				if p.series[i].level == step.level && out[i] < rows && free > 0 {
					out[i] = rows
					free--
				}
			}
		}
	}
	return out
}

// drawFigures lists figures in columns. It fills the left column first.
func (p *Page) drawFigures(a canvas.Area, figures []figure, columns int, sc *scene.Scene) {
	t := &sc.Theme
	t.Heading(a, " collector and memory "+sc.NowWord()+" ")
	rows, w := rowsOf(figures, columns)-1, a.W/columns
	for i, f := range figures {
		if 1+i%max(rows, 1) >= a.H {
			continue
		}
		row := a.Sub(i/rows*w, 1+i%rows, w, 1)
		row.Put(2, 0, f.Name, t.Dimmed())
		x := row.Put(20, 0, canvas.Cut(f.Text, row.W-21), t.Plain())
		if f.Of > 0 {
			drawBar(row.Sub(max(x+2, 46), 0, row.W-max(x+2, 46)-1, 1), f.Of, t)
		}
	}
}

// drawSeries draws one series over time with its scale, in the full height of the area.
func (p *Page) drawSeries(a canvas.Area, s *series, t *style.Theme) {
	color := t.Dim
	if s.state != gvl.Unknown {
		color = t.Readable(t.States[s.state])
	}
	a.Put(1, 0, s.name, t.Dimmed())
	a.Put(20, 0, canvas.Cut(s.value, valueW), t.Bold())
	low, top := s.scale()
	if a.H == 1 {
		a.Put(memoryLabelW-1-scaleW, 0, canvas.PadLeft(low+"–"+top, scaleW), t.Dimmed())
	} else {
		a.Put(memoryLabelW-1-scaleW, 0, canvas.PadLeft(top, scaleW), t.Dimmed())
		a.Put(memoryLabelW-1-scaleW, a.H-1, canvas.PadLeft(low, scaleW), t.Dimmed())
	}
	chart := a.Sub(memoryLabelW, 0, a.W-memoryLabelW-1, a.H)
	for x := range chart.W {
		i := widget.CellAt(x, len(s.values), chart.W)
		if i < 0 || s.values[i] < 0 || s.top <= s.low {
			continue
		}
		draw := style.DrawColumn
		if s.level {
			draw = style.DrawPoint
		}
		draw(chart, x, (s.values[i]-s.low)/(s.top-s.low), canvas.Style{FG: color})
	}
}

// figure is a number with its name, as text. If the number has a limit, Of says which share of the limit it has
// reached. Otherwise Of is zero.
type figure struct {
	Name, Text string
	Of         float64
}

// leastTelling are the figures that a small terminal leaves out, the least important first. Figures that are not in
// this list are always shown: the figures about growth, and about limits that are nearly reached.
var leastTelling = []string{"unprotected", "survived", "phase", "context switches", "old malloc", "malloc increase",
	"last collection", "memory pressure", "CPU", "major faults", "new objects"}

// fitFigures leaves out figures (leastTelling) until the others fit into the rows, or until no other figure may be left
// out.
func fitFigures(figures []figure, rows int) []figure {
	for _, name := range leastTelling {
		if len(figures) <= rows {
			break
		}
		figures = slices.DeleteFunc(figures, func(f figure) bool { return f.Name == name })
	}
	return figures
}

// Figures returns the figures of the collector and of the process, at the end of the time that the screen shows.
func (p *Page) Figures(sc *scene.Scene) []figure {
	var out []figure
	put := func(name, text string) { out = append(out, figure{Name: name, Text: text}) }
	gc := &p.At.GC
	if !gc.Valid {
		put("collector", "not read: not Ruby's own, or a release that is not known")
	} else {
		minor, major := gc.MinorCount-p.from.GC.MinorCount, gc.MajorCount-p.from.GC.MajorCount
		if p.from.TimeNS != 0 {
			put("collections", fmt.Sprintf("%s minor, %s major; %s since the start", units.Count(int64(minor)), units.Count(int64(major)), units.Count(int64(gc.Count))))
		}
		kind := "major"
		if by := sampler.GCMajorBy(gc.Reason); by != "" {
			kind += " (" + by + ")"
		} else {
			kind = "minor"
		}
		if by := sampler.GCTrigger(gc.Reason); by != "" {
			put("last collection", kind+": "+startedBy(by))
		}
		if gc.During || gc.Mode != sampler.GCIdle {
			put("phase", gc.Mode.String())
		}
	}
	if text := allocatedText(account.AllocOf(p.from.Classes, p.At.Classes)); text != "" {
		put("new objects", text)
	}
	d := p.At.Heap
	if d == nil || d.AtNS == 0 {
		if gc.Valid {
			put("heap", "its figures were not read")
		}
		return append(out, p.processFigures()...)
	}
	limit := func(name string, n, of int64, unit func(int64) string) {
		if n != sampler.GCUnknown && of > 0 {
			out = append(out, figure{name, unit(n) + " of " + unit(of), min(float64(max(n, 0))/float64(of), 1)})
		}
	}
	limit("slots free", d.FreeSlots, d.AvailableSlots, units.Count)
	limit("malloc increase", d.MallocIncrease, d.MallocLimit, units.Bytes)
	limit("old malloc", d.OldMallocIncrease, d.OldMallocLimit, units.Bytes)
	limit("old objects", d.OldObjects, d.OldObjectsLimit, units.Count)
	limit("unprotected", d.Unprotected, d.UnprotectedLimit, units.Count)
	if d.Marked != sampler.GCUnknown {
		put("survived", units.Count(d.Marked)+" objects at the last marking")
	}
	if by := sampler.GCMajorBy(d.NextMajor); by != "" {
		put("next collection", "will be major: "+by)
	}
	flags := ""
	for _, f := range []struct {
		on   bool
		word string
	}{{d.Disabled, "GC.disable"}, {d.Stress, "GC.stress"}, {d.Incremental, "marking in steps"}, {d.Compacting, "compacting"},
		{d.Uncounted, "ZJIT's objects are not counted"}} {
		if f.on {
			flags += "  " + f.word
		}
	}
	if flags != "" {
		put("state", flags[2:])
	}
	return append(out, p.processFigures()...)
}

// startedBy says in plain words what started a garbage collection. The parameter is Ruby's word for it
// (sampler.GCTrigger).
func startedBy(word string) string {
	plain := map[string]string{"newobj": "no slot was free", "malloc": "much was allocated by malloc", "method": "GC.start or GC.compact",
		"capi": "asked for by C code", "stress": "GC.stress"}[word]
	if plain == "" {
		return word
	}
	return plain + " (" + word + ")"
}

// These are limits for the text that says which classes the new objects have. It names at most maxAllocatedClasses
// classes. It is shown only if ddtop has seen new objects at minAllocInstants instants or more.
const (
	maxAllocatedClasses = 5
	minAllocInstants    = 20
)

// allocatedText names the classes that most of the new objects have, as an estimate. It returns "" if ddtop has seen
// too few objects.
func allocatedText(a report.StatAlloc) string {
	if a.Instants < minAllocInstants || len(a.Classes) == 0 {
		return ""
	}
	text := "≈ "
	for i, c := range a.Classes[:min(len(a.Classes), maxAllocatedClasses)] {
		if i > 0 {
			text += ", "
		}
		text += units.Percent(c.Share) + " " + c.Name
	}
	return text
}

// processFigures returns figures that the kernel counts for the process, such as its growth and CPU time.
func (p *Page) processFigures() []figure {
	if p.from.TimeNS == 0 || p.At.Proc.AtNS == 0 {
		return nil
	}
	grown := p.At.Proc.RSSBytes - p.from.Proc.RSSBytes
	sign := "+"
	if grown < 0 {
		sign, grown = "–", -grown
	}
	out := []figure{{Name: "RSS grew by", Text: sign + units.Bytes(grown)},
		{Name: "major faults", Text: units.Count(p.At.Proc.MajorFaults - p.from.Proc.MajorFaults)}}
	if n := p.At.Proc.PSSBytes; n > 0 {
		out = append(out, figure{Name: "PSS", Text: units.Bytes(n) + ", with its part of shared pages"})
	}
	if d := p.At.Proc.AtNS - p.from.Proc.AtNS; d > 0 {
		out = append(out, figure{Name: "CPU", Text: units.Percent(style.Share(p.At.Proc.UserNS-p.from.Proc.UserNS, d)) + " user, " +
			units.Percent(style.Share(p.At.Proc.SystemNS-p.from.Proc.SystemNS, d)) + " system"})
	}
	if n, d := p.At.Meters.Switches.Since(&p.from.Meters.Switches); d > 0 {
		out = append(out, figure{Name: "context switches", Text: eachSecond(float64(n), d)})
	}
	if n := p.At.Proc.SwapBytes; n > 0 {
		out = append(out, figure{Name: "swapped out", Text: units.Bytes(n)})
	}
	a, b := &p.from.Proc.Pressure, &p.At.Proc.Pressure
	if b.Source != sampler.PressureNone && a.Source == b.Source {
		d := p.At.Proc.AtNS - p.from.Proc.AtNS
		out = append(out, figure{Name: "memory pressure", Text: units.Percent(style.Share(b.MemorySomeNS-a.MemorySomeNS, d)) + " (" + b.Source.String() + ")"})
	}
	return out
}

// drawBar draws a bar that shows how much of a limit is used. Near the limit, the bar has the colour of a warning.
func drawBar(a canvas.Area, of float64, t *style.Theme) {
	const near = 0.9
	st := canvas.Style{FG: t.Accent}
	if of >= near {
		st.FG = t.Warn
	}
	n := int(of*float64(a.W) + 0.5)
	for x := range a.W {
		if x < n {
			a.Rune(x, 0, '▇', st)
		} else {
			a.Rune(x, 0, '·', t.Faded())
		}
	}
}

func (p *Page) drawPayers(a canvas.Area, t *style.Theme) {
	if a.H < 2 {
		return
	}
	t.Heading(a, fmt.Sprintf(" who paid for %s of garbage collection ", units.Duration(p.GCNS)))
	for y := range min(a.H-1, len(p.Payers)) {
		g := &p.Payers[y]
		row := a.Row(y + 1)
		row.Put(1, 0, canvas.PadLeft(units.Percent(style.Share(g.NS, p.GCNS)), 5), canvas.Style{FG: t.Readable(t.States[gvl.GC]), Attr: canvas.Bold})
		row.Put(7, 0, canvas.PadLeft(units.Duration(g.NS), 7), t.Plain())
		widget.DrawPlace(row.Sub(15, 0, row.W-16, 1), g, t)
	}
}
