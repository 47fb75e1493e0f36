package ui

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// findingsView says in plain words what is wrong, the cause first, and what to do where there is room.
type findingsView struct {
	list []gvl.Finding
	// note replaces the findings while there is nothing to judge yet.
	note string
}

func (f *findingsView) text() string {
	s := f.list[0].String()
	if n := len(f.list) - 1; n > 0 {
		s += fmt.Sprintf("  (+%d more)", n)
	}
	return s
}

func (f *findingsView) draw(a canvas.Area, t *Theme) {
	if len(f.list) == 0 {
		text := "no findings: nothing stands out in this stretch of time"
		mark := "✓"
		if f.note != "" {
			text, mark = f.note, "…"
		}
		a.Put(1, 0, mark, canvas.Style{FG: t.Good, Attr: canvas.Bold})
		a.Put(3, 0, canvas.Cut(text, a.W-4), t.dim())
		return
	}
	worst := f.list[0]
	color, mark := t.Accent, "ℹ"
	switch worst.Severity {
	case gvl.SeverityWarn:
		color, mark = t.Warn, "▲"
	case gvl.SeverityCrit:
		color, mark = t.Crit, "✖"
	}
	st := canvas.Style{FG: color, Attr: canvas.Bold}
	a.Put(1, 0, mark, st)
	lines := wrap(f.text(), a.W-4, a.H)
	if n := len(lines); n < a.H && worst.Next != "" {
		a.Put(3, n, canvas.Cut("→ "+worst.Next, a.W-4), t.dim())
	}
	for y, line := range lines {
		rest := line
		x := 3
		if y == 0 && strings.HasPrefix(line, worst.Title) {
			x = a.Put(x, y, worst.Title, st)
			rest = line[len(worst.Title):]
		}
		a.Put(x, y, rest, t.text())
	}
}

// wrap breaks a text at spaces into at most n lines of at most w columns; the last one is cut.
func wrap(s string, w, n int) []string {
	var lines []string
	s = canvas.Clean(s)
	for len(lines) < n-1 && canvas.Width(s) > w {
		at, col := -1, 0
		for i, r := range s {
			if r == ' ' {
				at = i
			}
			if col += canvas.RuneWidth(r); col > w {
				break
			}
		}
		if at <= 0 {
			break
		}
		lines = append(lines, s[:at])
		s = strings.TrimLeft(s[at:], " ")
	}
	return append(lines, canvas.Cut(s, w))
}
