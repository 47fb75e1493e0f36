package memory

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// kindColumns are the columns of the table of classes and types.
func (p *Page) kindColumns() []widget.Column[kindRow] {
	number := func(title, order string, width func(int) int, drop int, of func(r kindRow) float64, text func(r kindRow) string) widget.Column[kindRow] {
		return widget.Column[kindRow]{Title: title, Width: width, Drop: drop, Right: true, Order: order, Compare: heavier(of),
			Text: func(r kindRow, sc *scene.Scene) (string, canvas.Style) {
				if p.Table.By == order {
					return text(r), sc.Theme.Bold()
				}
				return text(r), sc.Theme.Plain()
			}}
	}
	count := func(n uint64) string { return units.Count(int64(n)) }
	rate := number("per second", "growth", widget.Wide(11), 0, func(r kindRow) float64 { return r.perSec }, nil)
	rate.Text, rate.Short = rateText, "/s"
	return []widget.Column[kindRow]{
		number("bytes", "bytes", widget.Wide(10), 0, func(r kindRow) float64 { return float64(r.Bytes) }, func(r kindRow) string {
			if r.Unsized > 0 {
				return units.FineBytes(int64(r.Bytes)) + "+"
			}
			return units.FineBytes(int64(r.Bytes)) + " "
		}),
		{Title: "of RSS", Width: widget.Wide(7), Right: true, Drop: 1, Text: func(r kindRow, sc *scene.Scene) (string, canvas.Style) {
			if r.RSSShare == nil {
				return "–", sc.Theme.Faded()
			}
			return units.FinePercent(*r.RSSShare), sc.Theme.Plain()
		}},
		number("objects", "objects", widget.Wide(11), 0, func(r kindRow) float64 { return float64(r.Objects) }, func(r kindRow) string { return count(r.Objects) }),
		number("old", "old", widget.Wide(11), 3, func(r kindRow) float64 { return float64(r.Old) }, func(r kindRow) string { return count(r.Old) }),
		number("survived", "survived", widget.Wide(0, scene.WideWidth, 11), 5, func(r kindRow) float64 { return float64(r.Objects - r.Old - r.New()) },
			func(r kindRow) string { return count(r.Objects - r.Old - r.New()) }),
		number("new", "new", widget.Wide(0, scene.WideWidth, 11), 2, func(r kindRow) float64 { return float64(r.New()) },
			func(r kindRow) string { return count(r.New()) }),
		number("grown", "grown", widget.Wide(10), 4, func(r kindRow) float64 { return float64(r.grown) }, func(r kindRow) string {
			if !r.since {
				return "–"
			}
			return signed(r.grown)
		}),
		rate,
		{Title: "class", Width: widget.Wide(widget.Rest), Least: 16, Order: "name", Compare: func(x, y kindRow) int { return cmp.Compare(x.Name, y.Name) },
			Text: func(r kindRow, sc *scene.Scene) (string, canvas.Style) {
				return " " + flamegraph.Printable(r.Name), sc.Theme.Plain()
			}},
	}
}

// signed returns how much a number of objects has changed, as text with a plus or minus sign.
func signed(n int64) string {
	switch {
	case n > 0:
		return "+" + units.Count(n)
	case n < 0:
		return "–" + units.Count(-n)
	}
	return "0"
}

// rateText returns how many objects of a class are added per second. If the class grows all the time, the text is
// highlighted. A question mark means that some of the objects may be garbage, because the collector has not checked
// them yet.
func rateText(r kindRow, sc *scene.Scene) (string, canvas.Style) {
	t := &sc.Theme
	switch {
	case !r.since:
		return "–", t.Faded()
	case r.growing != nil && r.growing.Confirmed:
		return "▲ " + units.Number(r.perSec, 1) + "/s", canvas.Style{FG: t.Crit, Attr: canvas.Bold}
	case r.growing != nil:
		return "▲? " + units.Number(r.perSec, 1) + "/s", canvas.Style{FG: t.Warn, Attr: canvas.Bold}
	case r.grown == 0:
		return "0", t.Faded()
	}
	return units.Number(r.perSec, 1) + "/s", t.Plain()
}

// drawParts writes the names of the page's parts in the first row of a, and returns the area below.
func (p *Page) drawParts(a canvas.Area, sc *scene.Scene) canvas.Area {
	t, x := &sc.Theme, 1
	for i, name := range partNames {
		st := t.Dimmed()
		if part(i) == p.part {
			st = canvas.Style{FG: t.Accent, Attr: canvas.Bold | canvas.Underline}
		}
		from := x
		x = a.Put(x, 0, name, st)
		sc.OnPress(a.Sub(from, 0, x-from, 1), func(h scene.Host, _, _ int) tea.Cmd { return p.turnTo(h, part(i)) })
		x += 2
	}
	if p.part != collectorPart && p.Counts.Last != nil && p.asked == nil {
		if text := p.Counts.since(sc) + " "; canvas.Width(text) < a.W-x {
			a.PutRight(0, text, t.Dimmed())
		}
	}
	return a.Sub(0, 1, a.W, a.H-1)
}

// drawHeap draws the shown part of the page, if it is one of the parts about the heap.
func (p *Page) drawHeap(a canvas.Area, sc *scene.Scene) {
	t, c := &sc.Theme, &p.Counts
	y := 0
	line := func(text string, st canvas.Style) { y += putWrapped(a, y, text, st) }
	if p.asked != nil {
		p.asked.draw(a, sc)
		return
	}
	switch {
	case c.err != nil:
		line("not counted: "+c.err.Error(), canvas.Style{FG: t.Warn})
	case c.Last == nil && sc.Source.Done:
		line("the process has ended before its objects were counted", t.Dimmed())
	case c.Last == nil:
		line("counting the objects of the heap …", t.Dimmed())
	}
	if c.Last == nil {
		return
	}
	how, doubts := c.Last.Read()
	line(how+" "+p.age(sc), t.Dimmed())
	if len(doubts) > 0 {
		line(strings.Join(doubts, " "), canvas.Style{FG: t.Warn})
	}
	if p.part == slotsPart {
		for _, text := range c.Last.SlotLines() {
			line(text, t.Plain())
		}
		return
	}
	if p.part == consistsPart {
		p.drawConsists(a.Sub(0, y, a.W, a.H-y), sc)
		return
	}
	for _, text := range p.growthLines() {
		line(text, t.Plain())
	}
	p.Table.Draw(a.Sub(0, y, a.W, a.H-y), sc, true, func(scene.Host, kindRow, int) tea.Cmd { return nil })
}

// mostWrapped limits the rows of a sentence.
const mostWrapped = 3

// putWrapped writes a sentence in as many rows as it needs, up to mostWrapped. It returns how many rows it wrote.
func putWrapped(a canvas.Area, y int, text string, st canvas.Style) int {
	lines, _ := style.Wrap(text, a.W-2, mostWrapped)
	for i, s := range lines {
		a.Put(1, y+i, s, st)
	}
	return len(lines)
}

// age returns a text that says how long ago the last count of the heap was.
func (p *Page) age(sc *scene.Scene) string {
	ago := sc.LastNS - p.Counts.count.EndedNS
	if p.Counts.busy {
		return "Counting again."
	}
	if ago < int64(time.Second) {
		return "Just now."
	}
	return fmt.Sprintf("%s ago.", units.ProseDuration(ago/int64(time.Second)*int64(time.Second)))
}

// growthLines returns lines about growth. The first line says which class grows most, or why this is not known. If no
// class grows, a line can say what kind of memory grew. Another line names a class that stopped growing.
func (p *Page) growthLines() []string {
	list := []string{p.growthText()}
	if text := p.Counts.Last.GrownText(); text != "" && len(p.Counts.Last.Growth.Classes) == 0 {
		list = append(list, text)
	}
	if stopped := p.Counts.Last.Growth.Stopped; len(stopped) > 0 {
		list = append(list, export.StoppedText(&stopped[0]))
	}
	return list
}

// growthText says which class of objects grows most. If this is not known yet, it says what is missing to know it.
func (p *Page) growthText() string {
	w := &p.Counts.watch
	taken, _ := w.Counts()
	list := p.Counts.Last.Growth.Classes
	over := fmt.Sprintf("%s in %s with %s", units.Plural(taken, "count", "counts"), units.ProseDuration(w.SpanNS()),
		units.Plural(int(w.Majors()), "major collection", "major collections"))
	switch {
	case taken < 2:
		return "growth: it takes some counts to name the classes that grow. One begins every 10 s"
	case !w.Enough():
		return "growth: too few collections came between the counts so far (" + over + ")"
	case len(list) == 0:
		return "no class grows all the time (" + over + ")"
	}
	k, others := p.Counts.Last.Suspect()
	text := export.GrowingText(k)
	if !k.Confirmed {
		text += ", if that is no garbage"
	}
	return text + others + " (" + over + ")"
}

// drawConsists draws what the memory consists of: each kind of memory, with its growth and its curve.
func (p *Page) drawConsists(a canvas.Area, sc *scene.Scene) {
	t, c := &sc.Theme, &p.Counts
	lines := c.Last.MemoryLines()
	if len(lines) == 0 {
		a.Put(1, 1, "reading what the memory consists of …", t.Dimmed())
		return
	}
	y := 0
	for _, text := range lines {
		y += putWrapped(a, y, text, t.Plain())
	}
	shown := min(len(c.consists), a.H-y-1)
	if shown < 1 || len(c.consists[0].values) < 2 {
		return
	}
	t.Heading(a.Row(y), " over time ")
	y++
	high := min(max((a.H-y)/shown, 1), levelRows)
	for _, s := range c.consists[:shown] {
		p.drawSeries(a.Sub(0, y, a.W, high), s, t)
		y += high
	}
}

// hiddenValue is shown instead of the first bytes of a String while values are hidden.
const hiddenValue = "    (value not shown)"

// draw draws the answer to a question about the heap, such as which objects refer to the objects of a class. While the
// page waits for the answer, draw shows how much of the heap has been copied.
func (x *answer) draw(a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	t.Heading(a, " "+flamegraph.Printable(x.title())+" ")
	x.height = a.H - 1
	switch {
	case x.err != nil:
		a.Put(1, 1, canvas.Cut(x.err.Error(), a.W-2), canvas.Style{FG: t.Warn})
	case x.lines == nil && x.total.Load() == 0:
		a.Put(1, 1, "copying the heap while the process runs …", t.Dimmed())
	case x.lines == nil:
		done, total := x.done.Load(), x.total.Load()
		text := fmt.Sprintf("copying the heap while the process runs: %s of %s pages", units.Count(done), units.Count(total))
		style.DrawBar(a.Sub(a.Put(1, 1, text, t.Dimmed())+2, 1, 20, 1), style.Share(done, total), t.Accent)
	default:
		x.rows = x.rows[:0]
		for _, text := range x.lines {
			if sc.HidesValues() && strings.HasPrefix(text, export.ValueMark) {
				text = hiddenValue
			}
			x.rows = append(x.rows, folded(text, a.W-2)...)
		}
		top := max(0, min(x.top, len(x.rows)-x.height))
		if !sc.Saving { // saving a picture must not scroll the screen
			x.top = top
		}
		for y, text := range x.rows[top:min(top+x.height, len(x.rows))] {
			a.Put(1, y+1, text, t.Plain())
		}
	}
}

// folded breaks a text into rows of at most w columns. All rows but the first are indented.
func folded(text string, w int) []string {
	const in = "      "
	if canvas.Width(text) <= w {
		return []string{text}
	}
	rows, _ := style.Wrap(text, w-len(in), mostWrapped)
	for i := range rows[1:] {
		rows[i+1] = in + rows[i+1]
	}
	return rows
}
