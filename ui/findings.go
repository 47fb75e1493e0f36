package ui

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// findingsView says in plain words what is wrong, the cause first, and what to do where there is room.
type findingsView struct {
	list []gvl.Finding
	// of are the processes that they are about, one for each; nil: all are about the one that is shown.
	of []*member
	// note replaces the findings while there is nothing to judge yet.
	note string
	// young: memory was not watched for long enough to tell of its growth.
	young bool
}

// current are the findings that go on; those that have ended come after them in the list.
func (v *findingsView) current() []gvl.Finding {
	n := slices.IndexFunc(v.list, func(f gvl.Finding) bool { return f.AgoNS != 0 })
	if n < 0 {
		return v.list
	}
	return v.list[:n]
}

// pool reports whether there is a finding that one of some threads waits for a pool.
func (v *findingsView) pool(waiters []sampler.ThreadID) bool {
	return slices.ContainsFunc(v.current(), func(f gvl.Finding) bool {
		return f.ID == "pool_wait" && slices.ContainsFunc(f.Threads, func(id sampler.ThreadID) bool { return slices.Contains(waiters, id) })
	})
}

// hexAddress is an address of an object; its last digits are enough to tell it from others.
var hexAddress = regexp.MustCompile(`0x[0-9a-f]{5,12}([0-9a-f]{4})`)

// findingLines returns a finding's title and text in at most n lines of w columns, the first of them less columns shorter. What does not
// fit is first made shorter.
func findingLines(f *gvl.Finding, w, n, less int) []string {
	lead := strings.Repeat(" ", less) // taken off again
	text := f.String()
	if _, whole := style.Wrap(lead+text, w, n); !whole {
		text = hexAddress.ReplaceAllString(text, "…$1")
	}
	lines, _ := style.Wrap(lead+text, w, n)
	lines[0] = strings.TrimPrefix(lines[0], lead)
	return lines
}

const (
	noFindings = "no findings: nothing stands out in the last 10 s"
	// noneNow leads where there are findings of the past.
	noneNow = "no findings now"
	// figuresOf stands beside the first finding, from figuresOfWidth columns on: the pictures below it are of longer stretches of time.
	figuresOf      = "last 10 s"
	figuresOfWidth = 100
)

// nothingFound says that there is no finding, and of what that is said while it can't be of all: memory is watched for some time before its
// growth is told.
func (f *findingsView) nothingFound() (mark, text string) {
	switch {
	case f.note != "":
		return "…", f.note
	case len(f.list) > 0:
		return "✓", noneNow
	case f.young:
		return "✓", noFindings + "; memory is watched for a minute first"
	}
	return "✓", noFindings
}

// draw draws the worst finding, what to do where there is room, and then the others.
func (f *findingsView) draw(a canvas.Area, sc *scene) {
	t := &sc.Theme
	if len(f.current()) == 0 {
		mark, text := f.nothingFound()
		a.Put(1, 0, mark, canvas.Style{FG: t.Good, Attr: canvas.Bold})
		x := a.Put(3, 0, canvas.Cut(text, a.W-4), t.Dimmed())
		switch n := len(f.list); {
		case n == 0:
			return
		case a.H == 1:
			moreFindings(sc, a.Sub(0, 0, min(x+2+canvas.Width(moreText(n)), a.W), 1), n)
			a.Put(x+2, 0, moreText(n), t.Dimmed())
			return
		}
		a = a.Sub(0, 1, a.W, a.H-1)
	}
	worst := &f.list[0]
	others := len(f.list) - 1
	less := 0
	if a.W >= figuresOfWidth && worst.AgoNS == 0 {
		less = canvas.Width(figuresOf) + 1
		a.PutRight(0, figuresOf+" ", t.Dimmed())
	}
	lines := findingLines(worst, a.W-4, a.H, less)
	left := a.H - len(lines)
	if others > 0 && left == 0 { // the last line makes room for the word that there are more
		more := "  " + moreText(others)
		last := &lines[len(lines)-1]
		*last = canvas.Cut(*last, a.W-4-canvas.Width(more)) + more
	}
	drawFindingLines(a, worst, lines, t)
	f.onPress(sc, a.Sub(0, 0, a.W, len(lines)), 0)
	if others > 0 && left == 0 {
		moreFindings(sc, a.Sub(3, len(lines)-1, canvas.Width(lines[len(lines)-1]), 1), others)
	}
	y := len(lines)
	if worst.Next != "" && (left >= 2 || left == 1 && others == 0) {
		a.Put(3, y, canvas.Cut("→ "+worst.Next, a.W-4), t.Dimmed())
		y++
	}
	for i := 1; i <= others && y < a.H; i++ {
		row := a.Row(y)
		if y == a.H-1 && i < others {
			more := "  " + moreText(others-i)
			row.PutRight(0, more+" ", t.Dimmed())
			moreFindings(sc, row, others-i)
			row = row.Sub(0, 0, row.W-canvas.Width(more)-1, 1)
		}
		drawFindingLines(row, &f.list[i], findingLines(&f.list[i], row.W-4, 1, 0), t)
		f.onPress(sc, row, i)
		y++
	}
}

// findingMark is the sign of a finding with its style: that of its severity, paler when it has ended.
func findingMark(f *gvl.Finding, t *style.Theme) (string, canvas.Style) {
	mark, color := severityMark(f.Severity, t)
	if f.AgoNS != 0 {
		return mark, t.Dimmed()
	}
	return mark, canvas.Style{FG: color, Attr: canvas.Bold}
}

// moreText says that there are more findings than are shown, and which key shows them.
func moreText(n int) string { return fmt.Sprintf("+%d more: !", n) }

// drawFindingLines draws a finding broken into lines: the sign of its severity and its title stand out.
func drawFindingLines(a canvas.Area, f *gvl.Finding, lines []string, t *style.Theme) {
	mark, st := findingMark(f, t)
	a.Put(1, 0, mark, st)
	text := t.Plain()
	if f.AgoNS != 0 {
		text = t.Dimmed()
	}
	for y, line := range lines {
		rest := line
		x := 3
		if title := f.When() + f.Title; y == 0 && strings.HasPrefix(line, title) {
			x = a.Put(x, y, title, st)
			rest = line[len(title):]
		}
		a.Put(x, y, rest, text)
	}
}

// maxFindingLines bounds the lines of one finding in the list of all.
const maxFindingLines = 8

// drawAll lists all findings in full over the screen, each with what to do. It keeps the selected one in sight.
func (f *findingsView) drawAll(a canvas.Area, sc *scene, o *overlay) {
	t, w := &sc.Theme, a.W-overlayMargin
	at := max(f.index(o.finding), 0)
	o.finding = f.id(at)
	var lines []overlayLine
	for i := range f.list {
		g, from := &f.list[i], len(lines)
		add := func(draw overlayLine) {
			lines = append(lines, func(a canvas.Area) {
				draw(a)
				if i == at {
					markRow(a, sc, true)
				}
				f.onPress(sc, a, i)
			})
		}
		text, _ := style.Wrap(g.String(), w-4, maxFindingLines)
		for y := range text {
			add(func(a canvas.Area) {
				if y == 0 {
					drawFindingLines(a, g, text[:1], t)
				} else {
					a.Put(3, 0, text[y], t.Plain())
				}
			})
		}
		next, _ := style.Wrap("→ "+g.Next, w-4, maxFindingLines)
		for _, s := range next {
			if g.Next != "" {
				add(func(a canvas.Area) { a.Put(3, 0, s, t.Dimmed()) })
			}
		}
		if i == at {
			if moved := [2]int{from, len(lines)}; moved != o.lines {
				o.lines = moved
				o.scroll = min(max(o.scroll, moved[1]-o.height), moved[0])
			}
		}
		lines = append(lines, func(canvas.Area) {})
	}
	if len(f.list) == 0 {
		lines = append(lines, func(a canvas.Area) {
			_, text := f.nothingFound()
			a.Put(1, 0, canvas.Cut(text, a.W-2), t.Dimmed())
		})
	}
	o.scroll = drawOverlay(a, t, " findings: figures of the last 10 s ", lines, o.scroll)
}
