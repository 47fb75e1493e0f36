package style

import (
	"math"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// FrameCell returns how to draw a cell of the timeline while a frame is highlighted. If the frame ran in the cell, the
// cell looks as usual. The longer the frame ran, the stronger is its colour. Any other cell has an empty background,
// which only shows that the thread existed.
func (t *Theme) FrameCell(c *timeline.Cell, ascii bool, beside *shades) (rune, canvas.Style) {
	if c.Listed() > 0 {
		return t.StateCell(c, ascii, beside)
	}
	const quiet = 0.08
	return ' ', canvas.Style{BG: t.Background.Mix(t.Text, quiet)}
}

// loudWait is a share of a cell's time. If a thread waited for at least this share, its cell is drawn in bold.
const loudWait = 0.1

// LeastWait is a share of a cell's time. If a thread waited for at least this share, the cell shows the wait. A cell
// can show eighths, and half an eighth is rounded up to one eighth.
const LeastWait = 1.0 / 16

// Shade mixes a colour with the theme's background. With a strength of 0 it returns the background, and with 1 the
// colour itself.
func (t *Theme) Shade(c canvas.Color, strength float64) canvas.Color {
	if t.Flat {
		return c
	}
	return t.Background.Mix(c, strength)
}

// ListenCell returns how to draw a cell of a thread that listens for connections. It has the letter of io, but the
// colour of a thread that rests.
func (t *Theme) ListenCell(c *timeline.Cell, ascii bool, _ *shades) (rune, canvas.Style) {
	glyph := c.Dominant.Glyph()
	if ascii {
		glyph = rune(c.Dominant.Letter())
	}
	bg := t.States[gvl.Parked]
	return glyph, canvas.Style{FG: MixUntil(t.Faint, t.Text, bg, Graphic), BG: bg}
}

// leastDominant is a share of a cell's time. The state with the largest share in a cell nearly always has at least this
// share. A state with this share gets the weakest shade of its colour.
const leastDominant = 0.3

// ShadeSteps is how many shades of a state's colour there are besides the weakest. There are few, because the eye
// cannot distinguish more. Also, each change of shade between two cells costs about 15 bytes of output to the terminal.
const ShadeSteps = 4

// InSteps rounds the strength of a colour, from 0 to 1, to one of the strengths that the shades can have (ShadeSteps).
func InSteps(v float64) float64 { return math.Round(v*ShadeSteps) / ShadeSteps }

// shadeRun is a number of cells. In a row of the timeline, the shades begin anew at every cell whose time is a multiple
// of shadeRun cells (see shades).
const shadeRun = 16

// shades smooths the colours in a row of the timeline. For each state it remembers how strong the state's colour was in
// the last cell. It also remembers how strong the colour of waiting was there. If the strength of the next cell differs
// by less than a step, this cell is drawn with the last strength. Without this, small random changes would make a row
// spotted, and each spot costs 15 to 40 bytes of output.
//
// The strengths are chosen anew at every cell whose time is a multiple of shadeRun cells. So a cell looks the same
// while the picture moves. Before the first such cell of a row, each cell is drawn with its own strength.
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

// GoTo must be called before a cell of a row is drawn. fromNS is the time at which the row begins, and eachNS how much
// time a cell covers.
func (s *shades) GoTo(cell int, fromNS, eachNS int64) {
	if (fromNS/max(eachNS, 1)+int64(cell))%shadeRun == 0 {
		*s = *NewShades()
		s.carried = true
	}
}

// near rounds the strength v of a colour, from 0 to 1, to a step. But if v differs from the last strength by less than
// a step, it returns the last strength.
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

// eighths returns how high a block is drawn, in eighths of a cell, if a thread ran for the share v of the cell's time.
// If v differs from the last height by less than an eighth, it returns the last height.
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

// leastRan is a share of a cell's time. If a thread ran for at least this share, the cell shows that it ran. The share
// is one eighth, because this is the smallest block that a cell can show.
const leastRan = 1.0 / 8

// letter returns the colour of letters on the colour of a state: black or white. Each state has one such colour for all
// its shades, so that a row does not alternate between black and white. Black and white each have a shade on which they
// are hardest to read. The method letter chooses the one that is more legible on its worst shade.
func (t *Theme) letter(full canvas.Color) canvas.Color {
	black, white := canvas.RGB(BlackText), canvas.RGB(WhiteText)
	weakest := t.Shade(full, t.Weakest)
	worst := func(c canvas.Color) float64 { return min(c.Contrast(full), c.Contrast(weakest)) }
	if worst(black) > worst(white) {
		return black
	}
	return white
}

// StateCell returns the character and the style for a cell of the timeline. The character stands for the state with the
// largest share of the cell's time. The background has the colour of this state. The larger the share, the stronger is
// the colour.
//
// A cell can also show that the thread waited (LeastWait). If the thread mostly ran, the cell has a block, which is
// then cut at the top. In all other cells, the letter of the state is underlined and gets the colour of waiting.
//
// A cell of another state can also show that the thread ran (leastRan). A block then replaces the letter. The block is
// as high as the share of running. But if the thread waited longer than it ran, the letter stays.
//
// beside has the shades of the cells on the left. It is nil for a single cell.
func (t *Theme) StateCell(c *timeline.Cell, ascii bool, beside *shades) (rune, canvas.Style) {
	if beside == nil {
		beside = NewShades()
	}
	s := c.Dominant
	full := t.States[s]
	strength := 1.0
	if !s.Idle() { // idle states have one strength
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
	if s.Idle() { // idle states are faint, but still visible
		plain = t.Text
		st.FG = MixUntil(t.Faint, plain, bg, Graphic)
	}
	if s == gvl.Waiting {
		st.Attr |= canvas.Bold
	}
	if waitedToo { // the longer the thread waited, the stronger the colour
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

// DrawStates draws a bar that is divided among states, in proportion to the time in each. It leaves out a state that
// would get less than half a column.
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

// legendWords has the states in the order of the legend, each with its text in the legend and a shorter text.
var legendWords = []struct {
	state       gvl.State
	word, short string
}{
	{gvl.Running, "running", "run"}, {gvl.Waiting, "waiting for the GVL", "wait"}, {gvl.IO, "io", "io"}, {gvl.Lock, "lock", "lock"},
	{gvl.Parked, "parked", "parked"}, {gvl.Sleeping, "sleeping", "sleep"}, {gvl.GC, "gc", "gc"}, {gvl.Native, "native", "native"},
	{gvl.Stalled, "stalled", "stalled"},
}

// DrawLegend draws the letter, the colour and the name of each state on one line. If there is too little room, it uses
// shorter names. If even these do not fit, it leaves out the last states.
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

// sparkLevels are the characters of a sparkline (a small curve), from the lowest to the highest. A value of 0 is drawn
// with the lowest character, so that the line has a base.
var sparkLevels = []rune("▁▂▃▄▅▆▇█")

// DrawSpark draws a sparkline (a small curve), with one column for each value and the newest value on the right. The
// value top gets the full height. A negative value means that nothing was measured, and its column stays blank.
// DrawSpark returns the column after the last one.
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

// DrawColumn draws one column of a chart, from the bottom of the area up to a share of its height. The height is
// rounded to eighths of a row. The top eighth always stays free. Otherwise full charts above each other would look like
// one chart on a terminal without colours.
func DrawColumn(a canvas.Area, x int, share float64, st canvas.Style) {
	eighths := min(int(share*float64(8*a.H)+0.5), 8*a.H-1)
	for y := a.H - 1; y >= 0 && eighths > 0; y-- {
		n := min(eighths, 8)
		a.Rune(x, y, sparkLevels[n-1], st)
		eighths -= n
	}
}

// DrawPoint draws one column of a curve: a mark at a height. The height is a share (0 to 1) of the area's height.
func DrawPoint(a canvas.Area, x int, share float64, st canvas.Style) {
	eighth := min(max(int(share*float64(8*a.H-1)+0.5), 0), 8*a.H-1)
	a.Rune(x, a.H-1-eighth/8, sparkLevels[eighth%8], st)
}

// Bar returns a bar made of characters. For a share of 1 it is w columns long.
func Bar(share float64, w int) string {
	n := min(max(int(share*float64(w)+0.5), 0), w)
	return strings.Repeat("█", n) + strings.Repeat("░", w-n)
}

// State returns the style for a state's name. The name is bold if the state means that a thread holds the GVL, waits
// for it, or waits for a lock.
func (t *Theme) State(s gvl.State) canvas.Style {
	st := canvas.Style{FG: t.Readable(t.States[s])}
	if s == gvl.Waiting || s.Held() || s == gvl.Lock {
		st.Attr = canvas.Bold
	}
	return st
}

// Heading draws a line in the first row of an area, and writes a title on it. It returns the column after the title.
func (t *Theme) Heading(a canvas.Area, title string) int {
	a.Row(0).Fill('─', t.Rule())
	return a.Put(1, 0, canvas.Cut(title, a.W-2), t.Bold())
}

// DrawBar draws a bar for a share (0 to 1) in an area's first row.
func DrawBar(a canvas.Area, share float64, c canvas.Color) {
	for x := range min(int(share*float64(a.W)+0.5), a.W) {
		a.Rune(x, 0, '▇', canvas.Style{FG: c})
	}
}
