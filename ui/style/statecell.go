package style

import (
	"math"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// FrameCell returns the appearance of a column of a row while a frame is highlighted. Where the frame ran, it is as
// usual, and stronger the more it ran. Elsewhere it is an empty background, which shows that the row existed.
func (t *Theme) FrameCell(c *timeline.Cell, ascii bool, beside *shades) (rune, canvas.Style) {
	if c.Listed() > 0 {
		return t.StateCell(c, ascii, beside)
	}
	const quiet = 0.08
	return ' ', canvas.Style{BG: t.Background.Mix(t.Text, quiet)}
}

// loudWait is the share of a column from which on a wait in it is drawn in bold.
const loudWait = 0.1

// LeastWait is the least share of a column for which a wait in it is drawn. It is half an eighth of the cell, the
// least that a cell can show.
const LeastWait = 1.0 / 16

// Shade returns a colour in a strength, 0 to 1.
func (t *Theme) Shade(c canvas.Color, strength float64) canvas.Color {
	if t.Flat {
		return c
	}
	return t.Background.Mix(c, strength)
}

// ListenCell draws a cell of a thread that listens: io by its letter, at rest by its colour.
func (t *Theme) ListenCell(c *timeline.Cell, ascii bool, _ *shades) (rune, canvas.Style) {
	glyph := c.Dominant.Glyph()
	if ascii {
		glyph = rune(c.Dominant.Letter())
	}
	bg := t.States[gvl.Parked]
	return glyph, canvas.Style{FG: MixUntil(t.Faint, t.Text, bg, Graphic), BG: bg}
}

// leastDominant is about the least share that the dominant state of a column has.
const leastDominant = 0.3

// ShadeSteps is the number of strengths in which a state is drawn, in addition to the weakest. More cannot be
// distinguished. Each change from one column to the next takes about 15 bytes to the terminal.
const ShadeSteps = 4

// InSteps rounds a strength, 0 to 1.
func InSteps(v float64) float64 { return math.Round(v*ShadeSteps) / ShadeSteps }

// shadeRun is the number of cells, counted in time, in which a strength is carried on.
const shadeRun = 16

// shades are the strengths that the cells of a row were drawn in last, from left to right, by state: of the state, and
// of the wait in it. The next cell is given the same where it is less than a step from it: noise doesn't make a row
// spotted then, which is restless in itself, worse in a compressed video, and about 15 to 40 bytes a spot. They begin
// again with every shadeRun-th cell of time, so that the cells stay as they are while the picture moves, and before the
// first of those aren't carried on.
type shades struct {
	carried       bool
	ran           float64
	share, waited [gvl.NumStates]float64
}

func NewShades() *shades {
	s := &shades{ran: math.Inf(1)}
	for i := range s.share {
		s.share[i], s.waited[i] = math.Inf(1), math.Inf(1)
	}
	return s
}

// GoTo is called before each cell of a row, which is cell, of eachNS from fromNS on.
func (s *shades) GoTo(cell int, fromNS, eachNS int64) {
	if (fromNS/max(eachNS, 1)+int64(cell))%shadeRun == 0 {
		*s = *NewShades()
		s.carried = true
	}
}

// near rounds a strength, 0 to 1.
func (s *shades) near(last *float64, v float64) float64 {
	if math.Abs(v-*last) < 1.0/ShadeSteps {
		return *last
	}
	v = InSteps(v)
	if s.carried {
		*last = v
	}
	return v
}

// eighths rounds a share of running. It keeps the last height if the share is less than an eighth from it.
func (s *shades) eighths(v float64) int {
	if math.Abs(v-s.ran) >= 1.0/8 {
		v = math.Round(v*8) / 8
		if s.carried {
			s.ran = v
		}
		return int(v * 8)
	}
	return int(s.ran * 8)
}

// leastRan is the share of a column from which on running in it is drawn. It is an eighth of the cell.
const leastRan = 1.0 / 8

// letter returns the colour of the letters on a state's background, black or white. It is the colour that is more
// legible on the worst shade, so that a row does not alternate between the two.
func (t *Theme) letter(full canvas.Color) canvas.Color {
	black, white := canvas.RGB(BlackText), canvas.RGB(WhiteText)
	weakest := t.Shade(full, t.Weakest)
	worst := func(c canvas.Color) float64 { return min(c.Contrast(full), c.Contrast(weakest)) }
	if worst(black) > worst(white) {
		return black
	}
	return white
}

// StateCell returns what a column of the timeline looks like. The glyph is the state with the largest share. The
// ground is its colour, stronger with a larger share.
//
// If the thread also waited (leastWait), the block of running is cut at the top. Other letters are underlined and take
// the colour of waiting. If the thread also ran (leastRan), a block of running stands at the bottom in place of the
// letter. It is as high as the share. The letter stays if the thread waited longer than it ran.
// beside are the shades of the cells to its left. It is nil if the cell stands alone.
func (t *Theme) StateCell(c *timeline.Cell, ascii bool, beside *shades) (rune, canvas.Style) {
	if beside == nil {
		beside = NewShades()
	}
	s := c.Dominant
	full := t.States[s]
	strength := 1.0
	if !s.Idle() { // which is quiet at any share
		strength = beside.near(&beside.share[s], math.Pow(min(max((c.Share-leastDominant)/(1-leastDominant), 0), 1), 0.8))
	}
	bg := t.Shade(full, t.Weakest+(1-t.Weakest)*strength)
	glyph := s.Glyph()
	if ascii {
		glyph = rune(s.Letter())
	}
	waited := Share(c.NS[gvl.Waiting], c.Listed())
	waitedToo := s != gvl.Waiting && waited >= LeastWait
	if s == gvl.Running && !ascii {
		st := canvas.Style{FG: bg, BG: bg}
		if waitedToo {
			levels := []rune("▇▆▅▄")
			glyph = levels[min(int(waited*8+0.5), len(levels))-1]
			st.BG = t.States[gvl.Waiting]
		}
		return glyph, st
	}
	ran := Share(c.NS[gvl.Running], c.Listed())
	letters := ascii || t.Flat || t.Letters || waitedToo && waited >= ran
	if n := beside.eighths(ran); n > 0 && ran >= leastRan && !letters {
		return sparkLevels[min(n, len(sparkLevels))-1], canvas.Style{FG: t.States[gvl.Running], BG: bg}
	}
	st := canvas.Style{FG: t.letter(full), BG: bg}
	plain := st.FG
	if s.Idle() { // quiet, but there
		plain = t.Text
		st.FG = MixUntil(t.Faint, plain, bg, Graphic)
	}
	if s == gvl.Waiting {
		st.Attr |= canvas.Bold
	}
	if waitedToo { // the longer it waited, the louder
		loud := canvas.RGB(0xFFB38A)
		if bg.Light() {
			loud = canvas.RGB(0x8A2B00)
		}
		st.Attr |= canvas.Underline
		st.FG = MixUntil(st.FG.Mix(loud, beside.near(&beside.waited[s], min(0.3+waited*4, 1))), plain, bg, Graphic)
		if waited >= loudWait {
			st.Attr |= canvas.Bold
		}
	}
	return glyph, st
}

// DrawStates draws a bar that is divided by the time in each state. A state with less than half a column is left out.
func (t *Theme) DrawStates(a canvas.Area, totals *[gvl.NumStates]int64, ascii bool) {
	parts := make([]int64, len(gvl.InBars))
	most, sum := 0, int64(0)
	for i, s := range gvl.InBars {
		parts[i] = totals[s]
		sum += parts[i]
		if parts[i] > parts[most] {
			most = i
		}
	}
	for i := range parts {
		if i != most && Share(parts[i], sum)*float64(a.W) < 0.5 {
			parts[i] = 0
		}
	}
	widths := units.Divide(a.W, parts, units.Sum(parts), nil)
	x := 0
	for i, s := range gvl.InBars {
		c := timeline.Cell{Dominant: s, Share: 1, SpanNS: 1}
		c.NS[s] = 1
		r, st := t.StateCell(&c, ascii, nil)
		for range widths[i] {
			a.Rune(x, 0, r, st)
			x++
		}
	}
}

// legendWords are the states in the order of the legend, in words and in short ones.
var legendWords = []struct {
	state       gvl.State
	word, short string
}{
	{gvl.Running, "running", "run"}, {gvl.Waiting, "waiting for the GVL", "wait"}, {gvl.IO, "io", "io"}, {gvl.Lock, "lock", "lock"},
	{gvl.Parked, "parked", "parked"}, {gvl.Sleeping, "sleeping", "sleep"}, {gvl.GC, "gc", "gc"}, {gvl.Native, "native", "native"},
	{gvl.Stalled, "stalled", "stalled"},
}

// DrawLegend writes the letters and colours of the states with their names, in one line. If there is no room it uses
// short names, and then as many of these as fit.
func DrawLegend(a canvas.Area, t *Theme, ascii bool) {
	whole := 1
	for _, l := range legendWords {
		whole += 2 + canvas.Width(l.word) + 2
	}
	x := 1
	for _, l := range legendWords {
		word := l.word
		if whole-2 > a.W {
			word = l.short
		}
		if x+2+canvas.Width(word) > a.W {
			return
		}
		c := timeline.Cell{Dominant: l.state, Share: 1, SpanNS: 1}
		c.NS[l.state] = 1
		r, st := t.StateCell(&c, ascii, nil)
		a.Rune(x, 0, r, st)
		x = a.Put(x+2, 0, word, t.Dimmed()) + 2
	}
}

// sparkLevels are the heights of a sparkline. Nothing has the lowest, as a base line.
var sparkLevels = []rune("▁▂▃▄▅▆▇█")

// DrawSpark draws one column for each value, the newest on the right. The value top has the full height. Negative
// values mean that there was no measurement, and stay blank.
func DrawSpark(a canvas.Area, x int, values []float64, top float64, st canvas.Style) int {
	for _, v := range values {
		switch {
		case v < 0:
			a.Rune(x, 0, ' ', st)
		default:
			i := 0
			if top > 0 && v > 0 {
				i = min(int(v/top*float64(len(sparkLevels)-1)+0.5), len(sparkLevels)-1)
			}
			a.Rune(x, 0, sparkLevels[i], st)
		}
		x++
	}
	return x
}

// DrawColumn draws one column of a chart from the bottom of its area to a share of its height. The height is rounded
// to eighths of a row. The uppermost eighth of a row stays free. Without colours, a full chart would otherwise merge
// with the chart above it.
func DrawColumn(a canvas.Area, x int, share float64, st canvas.Style) {
	eighths := min(int(share*float64(8*a.H)+0.5), 8*a.H-1)
	for y := a.H - 1; y >= 0 && eighths > 0; y-- {
		n := min(eighths, 8)
		a.Rune(x, y, sparkLevels[n-1], st)
		eighths -= n
	}
}

// DrawPoint draws one column of a curve at the height of a share (0 to 1).
func DrawPoint(a canvas.Area, x int, share float64, st canvas.Style) {
	eighth := min(max(int(share*float64(8*a.H-1)+0.5), 0), 8*a.H-1)
	a.Rune(x, a.H-1-eighth/8, sparkLevels[eighth%8], st)
}

// Bar draws a share (0 to 1) in w columns.
func Bar(share float64, w int) string {
	n := min(max(int(share*float64(w)+0.5), 0), w)
	return strings.Repeat("█", n) + strings.Repeat("░", w-n)
}

// State is the style of the word for a state: bold if the thread holds the GVL or waits for it or for a lock.
func (t *Theme) State(s gvl.State) canvas.Style {
	st := canvas.Style{FG: t.Readable(t.States[s])}
	if s == gvl.Waiting || s.Held() || s == gvl.Lock {
		st.Attr = canvas.Bold
	}
	return st
}

// Heading draws a rule over the first row of an area, with a title on it. It returns the column behind the title.
func (t *Theme) Heading(a canvas.Area, title string) int {
	a.Row(0).Fill('─', t.Rule())
	return a.Put(1, 0, canvas.Cut(title, a.W-2), t.Bold())
}

// DrawBar draws a share (0 to 1) as a bar of an area's first row.
func DrawBar(a canvas.Area, share float64, c canvas.Color) {
	for x := range min(int(share*float64(a.W)+0.5), a.W) {
		a.Rune(x, 0, '▇', canvas.Style{FG: c})
	}
}
