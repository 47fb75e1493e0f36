package widget

import (
	"fmt"
	"regexp"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// pressFinding makes a finding react to clicks: a click opens the view that shows the finding's cause.
func pressFinding(f *scene.Findings, sc *scene.Scene, a canvas.Area, i int) {
	id := f.ID(i)
	sc.OnPress(a, func(h scene.Host, _, _ int) tea.Cmd { return h.GoToFinding(id) })
}

// moreFindings makes the text "+2 more: !" at the end of a row react to clicks: a click opens the list of all findings.
func moreFindings(sc *scene.Scene, row canvas.Area, n int) {
	w := canvas.Width(moreText(n)) + 1
	sc.OnPress(row.Sub(row.W-w, 0, w, 1), func(h scene.Host, _, _ int) tea.Cmd { h.ShowFindings(); return nil })
}

// hexAddress matches the address of an object. Its group has the last four digits, which are enough to identify the
// object.
var hexAddress = regexp.MustCompile(`0x[0-9a-f]{5,12}([0-9a-f]{4})`)

// findingLines breaks a finding's title and text into at most n lines of w columns. If they do not fit, it first
// shortens the addresses of objects.
func findingLines(f *findings.Finding, w, n int) []string {
	text := f.String()
	if _, whole := style.Wrap(text, w, n); !whole {
		text = hexAddress.ReplaceAllString(text, "…$1")
	}
	lines, _ := style.Wrap(text, w, n)
	return lines
}

// DrawFindings draws the worst finding, its advice if there is room, and then the other findings.
func DrawFindings(f *scene.Findings, a canvas.Area, sc *scene.Scene) {
	t := &sc.Theme
	if len(f.Current()) == 0 {
		mark, text := f.NothingFound()
		color := t.Good
		if mark == "…" && f.Note == "" { // in this case NothingFound warns that the memory grows
			color = t.Warn
		}
		a.Put(1, 0, mark, canvas.Style{FG: color, Attr: canvas.Bold})
		x := a.Put(3, 0, canvas.Cut(text, a.W-4), t.Dimmed())
		switch n := len(f.List); {
		case n == 0:
			return
		case a.H == 1:
			moreFindings(sc, a.Sub(0, 0, min(x+2+canvas.Width(moreText(n)), a.W), 1), n)
			a.Put(x+2, 0, moreText(n), t.Dimmed())
			return
		}
		a = a.Sub(0, 1, a.W, a.H-1)
	}
	worst := &f.List[0]
	others := len(f.List) - 1
	lines := findingLines(worst, a.W-4, a.H)
	left := a.H - len(lines)
	if others > 0 && left == 0 { // cut the last line to make room for "+2 more"
		more := "  " + moreText(others)
		last := &lines[len(lines)-1]
		*last = canvas.Cut(*last, a.W-4-canvas.Width(more)) + more
	}
	drawFindingLines(a, worst, lines, t)
	pressFinding(f, sc, a.Sub(0, 0, a.W, len(lines)), 0)
	if others > 0 && left == 0 {
		moreFindings(sc, a.Sub(3, len(lines)-1, canvas.Width(lines[len(lines)-1]), 1), others)
	}
	y := len(lines)
	end := 3 + canvas.Width(lines[y-1]) // column after the last row of the worst finding
	if worst.Next != "" && (left >= 2 || left == 1 && others == 0) {
		end = a.Put(3, y, canvas.Cut("→ "+worst.Next, a.W-4), t.Dimmed())
		y++
	}
	if native := nativeText(worst); native != "" && a.H-y > min(others, 1) {
		end = a.Put(3, y, canvas.Cut(native, a.W-4), t.Dimmed())
		y++
	}
	// FiguresOf says which time span the findings are about. It is written at the end of the finding's last row. At the
	// end of an earlier row, it would be in the middle of a sentence.
	if a.W >= scene.FiguresOfWidth && worst.AgoNS == 0 && end+2+canvas.Width(scene.FiguresOf) < a.W {
		a.PutRight(y-1, scene.FiguresOf+" ", t.Dimmed())
	}
	for i := 1; i <= others && y < a.H; i++ {
		row := a.Row(y)
		if y == a.H-1 && i < others {
			more := "  " + moreText(others-i)
			row.PutRight(0, more+" ", t.Dimmed())
			moreFindings(sc, row, others-i)
			row = row.Sub(0, 0, row.W-canvas.Width(more)-1, 1)
		}
		drawFindingLines(row, &f.List[i], findingLines(&f.List[i], row.W-4, 1), t)
		pressFinding(f, sc, row, i)
		y++
	}
}

// nativeText returns a text that says in which C functions the first thread of a finding is. It is empty if this is not
// known.
func nativeText(f *findings.Finding) string {
	if f.Native == "" {
		return ""
	}
	return "in C: " + flamegraph.Printable(f.Native)
}

// FindingMark returns the sign for a finding's severity, and the style of this sign. If the finding has ended, the
// style is dimmed.
func FindingMark(f *findings.Finding, t *style.Theme) (string, canvas.Style) {
	mark, color := severityMark(f.Severity, t)
	if f.AgoNS != 0 {
		return mark, t.Dimmed()
	}
	return mark, canvas.Style{FG: color, Attr: canvas.Bold}
}

// moreText returns a text that says how many findings are not shown, and which key shows them.
func moreText(n int) string { return fmt.Sprintf("+%d more: !", n) }

// drawFindingLines draws the lines of a finding. It highlights the sign of the severity and the title.
func drawFindingLines(a canvas.Area, f *findings.Finding, lines []string, t *style.Theme) {
	mark, st := FindingMark(f, t)
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

// maxFindingLines limits how many lines each finding takes in the list of all findings.
const maxFindingLines = 8

// DrawAllFindings draws the list of all findings over the screen, each with its full text and advice. It scrolls so
// that the selected finding is visible.
func DrawAllFindings(f *scene.Findings, a canvas.Area, sc *scene.Scene, o *Overlay) {
	t, w := &sc.Theme, a.W-OverlayMargin
	at := max(f.Index(o.Finding), 0)
	o.Finding = f.ID(at)
	var lines []OverlayLine
	for i := range f.List {
		g, from := &f.List[i], len(lines)
		add := func(draw OverlayLine) {
			lines = append(lines, func(a canvas.Area) {
				draw(a)
				if i == at {
					MarkRow(a, sc, true)
				}
				pressFinding(f, sc, a, i)
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
		if native := nativeText(g); native != "" {
			inC, _ := style.Wrap(native, w-4, maxFindingLines)
			for _, s := range inC {
				add(func(a canvas.Area) { a.Put(3, 0, s, t.Dimmed()) })
			}
		}
		next, _ := style.Wrap("→ "+g.Next, w-4, maxFindingLines)
		for _, s := range next {
			if g.Next != "" {
				add(func(a canvas.Area) { a.Put(3, 0, s, t.Dimmed()) })
			}
		}
		if i == at {
			if moved := [2]int{from, len(lines)}; moved != o.Lines {
				o.Lines = moved
				o.Scroll = min(max(o.Scroll, moved[1]-o.Height), moved[0])
			}
		}
		if i < len(f.List)-1 {
			lines = append(lines, func(canvas.Area) {})
		}
	}
	if len(f.List) == 0 {
		lines = append(lines, func(a canvas.Area) {
			_, text := f.NothingFound()
			a.Put(1, 0, canvas.Cut(text, a.W-2), t.Dimmed())
		})
	}
	o.Scroll = DrawOverlay(a, t, " findings: figures of the last 10 s ", lines, o.Scroll)
}

func severityMark(s findings.Severity, t *style.Theme) (mark string, color canvas.Color) {
	switch s {
	case findings.SeverityWarn:
		return "▲", t.Warn
	case findings.SeverityCrit:
		return "✖", t.Crit
	}
	return "ℹ", t.Accent
}
