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
	if !p.known {
		a.Put(3, a.H/2, "nothing measured yet", t.Dimmed())
		return
	}
	figures := p.Figures(sc)
	// The series get three rows each where there is room, else fewer; never less than one.
	high := max(1, min(4, (a.H-len(figures)-4)/max(len(p.series), 1)))
	y := 0
	for i := range p.series {
		gap := 0
		if high > 2 {
			gap = 1
		}
		p.drawSeries(a.Sub(0, y, a.W, high-gap), &p.series[i], t)
		y += high
	}
	left := a.W
	if len(p.Payers) > 0 && a.W >= scene.WideWidth {
		left = a.W / 2
		p.drawPayers(a.Sub(left, y, a.W-left, a.H-y), t)
	}
	figures = fitFigures(figures, a.H-y-1)
	t.Heading(a.Sub(0, y, left, 1), " collector and memory at the end of it ")
	for i, f := range figures {
		row := a.Sub(0, y+1+i, left, 1)
		if row.H == 0 {
			break
		}
		row.Put(2, 0, f.Name, t.Dimmed())
		x := row.Put(20, 0, canvas.Cut(f.Text, row.W-21), t.Plain())
		if f.Of > 0 {
			drawBar(row.Sub(max(x+2, 46), 0, row.W-max(x+2, 46)-1, 1), f.Of, t)
		}
	}
	if rest := a.H - y - 1 - len(figures); left == a.W && rest > 2 && len(p.Payers) > 0 {
		p.drawPayers(a.Sub(0, a.H-rest, a.W, rest), t)
	}
}

// drawSeries draws one figure over time, as high as its area.
func (p *Page) drawSeries(a canvas.Area, s *series, t *style.Theme) {
	color := t.Dim
	if s.state != gvl.Unknown {
		color = t.Readable(t.States[s.state])
	}
	a.Put(1, 0, s.name, t.Dimmed())
	a.Put(20, 0, canvas.Cut(s.value, memoryLabelW-21), t.Bold())
	chart := a.Sub(memoryLabelW, 0, a.W-memoryLabelW-1, a.H)
	for x := range chart.W {
		i := widget.CellAt(x, len(s.values), chart.W)
		if i < 0 || s.values[i] < 0 || s.top <= 0 {
			continue
		}
		style.DrawColumn(chart, x, s.values[i]/s.top, canvas.Style{FG: color})
	}
}

// figure is a line of figures. of is its share of a limit. It is zero if there is none.
type figure struct {
	Name, Text string
	Of         float64
}

// leastTelling are the figures that a small terminal leaves out, the first first: how much grew and what is near its limit must
// not be what has no room.
var leastTelling = []string{"unprotected", "survived", "now", "given a CPU", "old malloc", "malloc increase", "last one"}

// fitFigures leaves figures out until the rest has room, or nothing is left that may be.
func fitFigures(figures []figure, rows int) []figure {
	for _, name := range leastTelling {
		if len(figures) <= rows {
			break
		}
		figures = slices.DeleteFunc(figures, func(f figure) bool { return f.Name == name })
	}
	return figures
}

// Figures are the collector's figures at the end of the time shown.
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
			put("last one", kind+": "+startedBy(by))
		}
		if gc.During || gc.Mode != sampler.GCIdle {
			put("now", gc.Mode.String())
		}
	}
	if text := allocatedText(account.AllocOf(p.from.Classes, p.At.Classes)); text != "" {
		put("new objects", text)
	}
	d := &p.At.Heap
	if d.AtNS == 0 {
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
		put("survived", units.Count(d.Marked)+" objects the last marking")
	}
	if by := sampler.GCMajorBy(d.NextMajor); by != "" {
		put("next one", "will be major: "+by)
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

// startedBy describes the start of a collection in plain words, with Ruby's own word (sampler.GCTrigger).
func startedBy(word string) string {
	plain := map[string]string{"newobj": "no slot was free", "malloc": "much was allocated by malloc", "method": "GC.start or GC.compact",
		"capi": "asked for by C code", "stress": "GC.stress"}[word]
	if plain == "" {
		return word
	}
	return plain + " (" + word + ")"
}

// Limits of the text about allocations by class: the number of classes, and the least number of instants.
const (
	maxAllocatedClasses = 5
	minAllocInstants    = 20
)

// allocatedText names the classes that most objects were made of, an estimate; "" when too little was seen.
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

// processFigures returns the kernel's figures.
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
		out = append(out, figure{Name: "PSS", Text: units.Bytes(n) + ", shared pages by their part"})
	}
	if d := p.At.Proc.AtNS - p.from.Proc.AtNS; d > 0 {
		out = append(out, figure{Name: "CPU", Text: units.Percent(style.Share(p.At.Proc.UserNS-p.from.Proc.UserNS, d)) + " user, " +
			units.Percent(style.Share(p.At.Proc.SystemNS-p.from.Proc.SystemNS, d)) + " system"})
	}
	if n, d := p.At.Meters.Switches.Since(&p.from.Meters.Switches); d > 0 {
		out = append(out, figure{Name: "given a CPU", Text: eachSecond(float64(n), d) + " (context switches)"})
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

// drawBar draws how much of a limit is used; near it the bar warns.
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
	t.Heading(a, fmt.Sprintf(" who paid for %s in the collector ", units.Duration(p.GCNS)))
	for y := range min(a.H-1, len(p.Payers)) {
		g := &p.Payers[y]
		row := a.Row(y + 1)
		row.Put(1, 0, canvas.PadLeft(units.Percent(style.Share(g.NS, p.GCNS)), 5), canvas.Style{FG: t.Readable(t.States[gvl.GC]), Attr: canvas.Bold})
		row.Put(7, 0, canvas.PadLeft(units.Duration(g.NS), 7), t.Plain())
		widget.DrawPlace(row.Sub(15, 0, row.W-16, 1), g, t)
	}
}
