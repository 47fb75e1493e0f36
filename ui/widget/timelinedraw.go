package widget

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// Draw draws the rows of threads. Below them it draws the GVL lanes, the rows that show which thread held the GVL.
func (v *Timeline) Draw(a canvas.Area, lanes canvas.Area, t *style.Theme, g *scene.Regions, focused, ascii bool) {
	for y := range v.Visible {
		v.drawRow(a.Row(y), &v.Visible[y], t, g, focused, ascii)
	}
	for y := range min(len(v.Lanes), lanes.H) {
		v.drawLane(lanes.Row(y), &v.Lanes[y], t, g)
	}
}

func (v *Timeline) drawRow(a canvas.Area, w *scene.Row, t *style.Theme, g *scene.Regions, focused, ascii bool) {
	selected := w.Key == v.Selected
	name, now := t.Plain(), t.Dimmed()
	if w.IsGroup {
		name = t.Bold()
	}
	x := 1
	if w.InGroup {
		x = 3
	}
	switch {
	case w.IsGroup && w.Open:
		a.Put(x, 0, "▾", t.Dimmed())
	case w.IsGroup:
		a.Put(x, 0, "▸", t.Dimmed())
	case w.Ident > 0:
		st := canvas.Style{FG: t.Readable(t.Owner(w.Ident)), Attr: canvas.Bold}
		if w.Holds {
			st.Attr |= canvas.Reverse
		}
		a.Rune(x, 0, identRune(w.Ident), st)
	}
	a.Put(x+2, 0, canvas.CutName(w.Name, g.NameW-x-2), name)
	v.drawNow(a.Sub(g.NameW+1, 0, g.NowW, 1), w, t, now)
	if selected {
		t.Highlight(a.Sub(0, 0, g.CellsX-1, 1), focused)
		if g.SharesW > 0 {
			t.Highlight(a.Sub(a.W-g.SharesW, 0, g.SharesW, 1), focused)
		}
		a.Put(0, 0, "▌", canvas.Style{FG: t.Accent, BG: t.Selection, Attr: canvas.Bold})
	}
	cells, beside := a.Sub(g.CellsX, 0, g.CellsW, 1), style.NewShades()
	for x := range cells.W {
		i := CellAt(x, len(w.Cells), cells.W)
		if i < 0 {
			continue
		}
		c := &w.Cells[i]
		if c.Listed() == 0 {
			continue
		}
		beside.GoTo(i, v.FromNS, (v.ToNS-v.FromNS)/int64(len(w.Cells)))
		draw := t.StateCell
		if v.FrameCells != nil {
			c, draw = v.FrameCells.cell(w.Key, i), t.FrameCell
		}
		if w.Listens && c.Dominant == gvl.IO && v.FrameCells == nil && style.Share(c.NS[gvl.Waiting], c.Listed()) < style.LeastWait {
			draw = t.ListenCell
		}
		r, st := draw(c, ascii, beside)
		cells.Rune(x, 0, r, st)
	}
	v.drawShares(a.Sub(a.W-g.SharesW, 0, g.SharesW, 1), w, t)
}

// drawNow writes what a thread does now. The first word is the name of the state, in the state's colour.
func (v *Timeline) drawNow(a canvas.Area, w *scene.Row, t *style.Theme, st canvas.Style) {
	if w.IsGroup && !w.AtMoment {
		v.Threads.States(w.Members).Draw(a, t, st)
		return
	}
	forms := w.Now
	// do not cut the text, because a part of a duration would be wrong
	if n := len(forms); n > 0 && canvas.Width(forms[n-1]) > a.W {
		word, _, _ := strings.Cut(forms[n-1], " ")
		forms = []string{word}
	}
	text := style.Fit(forms, a.W)
	a.Put(0, 0, text, st)
	word, _, _ := strings.Cut(text, " ")
	if word != "ended" {
		ws := t.State(w.State)
		if w.Listens && w.State == gvl.IO {
			ws = st
		}
		a.Put(0, 0, word, ws)
	}
}

// DrawAxis draws the heads of the timeline's columns, and the time axis. The parameter now is the text at the right end
// of the axis, such as "now". The parameter then is the head of the column beside the names.
func (v *Timeline) DrawAxis(a canvas.Area, t *style.Theme, g *scene.Regions, focused bool, now, then string) {
	st := t.Dimmed()
	title := st
	if focused {
		title = canvas.Style{FG: t.Accent, Attr: canvas.Bold}
	}
	counted := v.Threads.Counted()
	if canvas.Width(counted) > g.NameW-1 {
		counted, _, _ = strings.Cut(counted, " threads")
	}
	x := a.Put(1, 0, canvas.Cut(counted, g.NameW-1), title)
	// hidden says how many rows are above and below the visible ones.
	hidden := strings.TrimRight(v.Hidden(), " ")
	a.Put(x, 0, canvas.Cut(hidden, g.NameW+g.NowW-x), canvas.Style{FG: t.Warn, Attr: canvas.Bold})
	if x+canvas.Width(hidden) <= g.NameW {
		a.Put(g.NameW+1, 0, then, st)
	}
	axis := a.Sub(g.CellsX, 0, g.CellsW, 1)
	axis.PutRight(0, now, st)
	right := axis.W - canvas.Width(now) - 1
	left := 0
	if v.FrameCells != nil {
		left = v.FrameCells.draw(axis, t)
	}
	v.DrawTicks(axis, left, right, st)
	v.Shares.drawHead(a.Sub(a.W-g.SharesW, 0, g.SharesW, 1), t)
}

// BlankShare limits the blank part at the left end of the time axis. This part is at most the width of the axis divided
// by BlankShare.
const BlankShare = 10

// CellAt returns the index of the cell that is drawn in column x. There are n cells and w columns. The newest cell is
// at the right edge. If there are far fewer cells than columns, each cell is several columns wide. CellAt returns -1 if
// no cell is drawn in the column.
func CellAt(x, n, w int) int {
	if n == 0 {
		return -1
	}
	if w-n <= w/BlankShare {
		return x - (w - n)
	}
	return x * n / w
}

// tickSteps are the possible intervals between two times that are written on a time axis.
var tickSteps = []time.Duration{100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond,
	5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
	5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute,
	10 * time.Minute, 15 * time.Minute, 30 * time.Minute}

// tickColumns is the least distance between two times on the axis, in columns.
const tickColumns = 8

// DrawTicks writes round times on the axis, in the columns between left and right.
func (v *Timeline) DrawTicks(axis canvas.Area, left, right int, st canvas.Style) {
	span := v.ToNS - v.FromNS
	if span <= 0 || v.Cells == 0 {
		return
	}
	first, columns := 0, axis.W
	if axis.W-v.Cells <= axis.W/BlankShare {
		first, columns = axis.W-v.Cells, v.Cells
	}
	step := tickSteps[len(tickSteps)-1]
	for _, s := range tickSteps {
		if int64(columns)*int64(s) >= tickColumns*span {
			step = s
			break
		}
	}
	for ago := (span + int64(step)/20) / int64(step) * int64(step); ago > 0; ago -= int64(step) {
		x := max(first, 0) + max(0, int((span-ago)*int64(columns)/span))
		if label := "-" + style.AxisTime(ago); x >= left && x+canvas.Width(label) < right {
			axis.Put(x, 0, label, st)
		}
	}
}

// quietShare is a share of a column's time. If the GVL was held for less than this share, the GVL lane shows the column
// as free.
const quietShare = 0.1

func (v *Timeline) drawLane(a canvas.Area, l *lane, t *style.Theme, g *scene.Regions) {
	a.Put(1, 0, canvas.Cut(l.label, g.NameW-1), t.Dimmed())
	if n := len(l.cells); n > 0 {
		v.drawHolder(a.Sub(g.NameW+1, 0, g.NowW, 1), l, t)
	}
	cells := a.Sub(g.CellsX, 0, g.CellsW, 1)
	var held, sampled int64
	for i := range l.cells {
		held += l.cells[i].HeldNS
		sampled += l.cells[i].SampledNS
	}
	for x := range cells.W {
		i := CellAt(x, len(l.cells), cells.W)
		if i < 0 {
			continue
		}
		c := &l.cells[i]
		// the GVL was mostly free: with the number of a thread, the cell would look as if the GVL was used
		if style.Share(c.HeldNS, c.SampledNS) < quietShare {
			if c.SampledNS > 0 {
				cells.Rune(x, 0, '·', t.Faded())
			}
			continue
		}
		full := t.Owner(l.owner[i])
		if c.GCNS*2 > c.HeldNS {
			cells.Rune(x, 0, 'G', style.On(t.States[gvl.GC]))
			continue
		}
		ground := t.Shade(full, LaneStrength(style.InSteps(min(style.Share(c.HeldByOwnerNS, c.SampledNS), 1))))
		// A thread's sign has the same colour on all shades of its background. On a shade on which this colour could
		// not be read, the sign has a different colour.
		cells.Rune(x, 0, identRune(l.owner[i]), canvas.Style{FG: style.MixUntil(style.On(full).FG, style.On(ground).FG, ground, style.Graphic), BG: ground})
	}
	if g.SharesW > 0 {
		a.Put(a.W-g.SharesW, 0, fmt.Sprintf("%3s %% held", units.WholePercent(style.Share(held, sampled))), t.Dimmed())
	}
}

// LaneStrength returns how strong a thread's colour is in a column of the GVL lane. share says for which share of the
// column's time the thread held the GVL.
func LaneStrength(share float64) float64 { return 0.3 + 0.7*share }

// drawHolder writes which thread held the ractor's GVL longest in the time on the screen, and for which share of this
// time.
func (v *Timeline) drawHolder(a canvas.Area, l *lane, t *style.Theme) {
	var total int64
	for i := range l.cells {
		total += l.cells[i].SampledNS
	}
	by := make(map[sampler.ThreadID]int64)
	if l.Own {
		for i := range l.cells {
			by[l.cells[i].Owner] += l.cells[i].HeldByOwnerNS
		}
	}
	best, most := -1, int64(0)
	for i := range v.Threads {
		th := &v.Threads[i]
		held := th.Totals[gvl.Running] + th.Totals[gvl.Stalled] + th.Totals[gvl.GC]
		if l.Own {
			held = by[th.ID]
		}
		if th.Ractor == l.ractor && held > most {
			best, most = i, held
		}
	}
	if best < 0 {
		a.Put(0, 0, "no thread", t.Dimmed())
		return
	}
	const leastName = 6
	x := 0
	held := " " + units.Percent(style.Share(most, total))
	named := a.W-canvas.Width(held) >= 4+min(canvas.Width(v.Threads[best].Name), leastName)
	if ident := v.Idents.Numbers[v.Threads[best].ID]; ident > 0 {
		x = a.Put(0, 0, string(identRune(ident)), canvas.Style{FG: t.Readable(t.Owner(ident)), Attr: canvas.Bold})
		if named {
			x = a.Put(x, 0, " = ", t.Dimmed()) // the sign = also explains the glyphs before the names of threads
		}
	}
	name := ""
	if named || x == 0 {
		name = canvas.CutName(v.Threads[best].Name, a.W-x-canvas.Width(held))
	}
	a.Put(x, 0, name+held, t.Dimmed())
}

// DrawNotes writes the user's notes on the time axis. Each note begins at the column of its moment, and is cut if there
// is too little room. A note near the right edge ends at its moment instead.
func (v *Timeline) DrawNotes(axis canvas.Area, l scene.Notes, t *style.Theme) {
	st := canvas.Style{FG: t.Accent, Attr: canvas.Bold}
	end := axis.W
	for _, n := range slices.Backward(l) {
		x, ok := v.columnAt(n.AtNS, axis.W)
		if !ok {
			continue
		}
		text := "▼" + n.Text
		if room := end - x; room < canvas.Width(text)+1 && end == axis.W {
			text = n.Text + "▼"
			w := min(canvas.Width(text), x+1)
			clearWords(axis, x+1-w, x+1)
			axis.Put(x+1-w, 0, canvas.CutLeft(text, w), st)
			end = x + 1 - w
			continue
		}
		if x < end {
			text = canvas.Cut(text, end-x)
			clearWords(axis, x, x+canvas.Width(text))
			axis.Put(x, 0, text, st)
			end = x
		}
	}
}

// clearWords clears columns of a row. If only a part of a word is in these columns, it clears the whole word, because
// half of "-25s" would be a wrong time. It does not clear notes in the row.
func clearWords(a canvas.Area, from, to int) {
	var there []rune
	a.RestyleRunes(func(r rune, s canvas.Style) canvas.Style {
		there = append(there, r)
		return s
	})
	inWord := func(x int) bool { return x >= 0 && x < len(there) && there[x] != ' ' && there[x] != '▼' }
	for inWord(from) && inWord(from-1) {
		from--
	}
	for inWord(to-1) && inWord(to) {
		to++
	}
	a.Sub(from, 0, to-from, 1).Fill(' ', canvas.Style{})
}

// columnAt returns the column of a moment on a time axis of w columns. ok is false if the moment is not on the axis.
func (v *Timeline) columnAt(ns int64, w int) (x int, ok bool) {
	span := v.ToNS - v.FromNS
	if span <= 0 || v.Cells == 0 || ns <= v.FromNS || ns > v.ToNS {
		return 0, false
	}
	i := int((ns - v.FromNS - 1) * int64(v.Cells) / span)
	for x := range w {
		if CellAt(x, v.Cells, w) == i {
			return x, true
		}
	}
	return 0, false
}
