package ui

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// overlayLine draws one line of what lies over the screen.
type overlayLine func(a canvas.Area)

// overlayMargin is the columns that the frame of an overlay takes.
const overlayMargin = 4

// maxOverlay is the width of an overlay on a wider screen, and leastBeside what must be free beside it then: less would show
// only scraps of the screen under it.
const maxOverlay, leastBeside = 200, 80

// overlayID says what lies over the screen.
type overlayID uint8

const (
	noOverlay overlayID = iota
	helpOverlay
	findingsOverlay
	numOverlays
)

// overlay is what lies over the screen, and from which line on it is shown.
type overlay struct {
	what   overlayID
	scroll int
	// finding is the selected one of the findings, lines its first line and the one after its last, height the lines that there was
	// room for.
	finding findingID
	lines   [2]int
	height  int
}

// toggle opens an overlay, or closes it.
func (o *overlay) toggle(what overlayID) {
	if o.what == what {
		what = noOverlay
	}
	*o = overlay{what: what}
}

// overlayKeys are the keys that work while something lies over the screen, by what that is.
func overlayKeys() (out [numOverlays]keyMap) {
	closes := on(func(m *Model) tea.Cmd { m.over = overlay{}; return nil })
	scroll := func(h Host, by step) tea.Cmd {
		m := h.(*Model)
		m.over.scroll = max(0, m.over.scroll+by.rows+by.screens*max(m.over.height-1, 1))
		return nil
	}
	out[helpOverlay] = keyMap{title: "help", bindings: append(cursorKeys("scroll", "scroll", scroll),
		binding{keys: []string{"esc", "?"}, show: "esc", short: "close", always: true, do: closes})}
	out[findingsOverlay] = keyMap{title: "findings", bindings: append(cursorKeys("select", "select a finding", func(h Host, by step) tea.Cmd { return moveFinding(h.(*Model), by) }),
		binding{keys: []string{"enter"}, show: "enter", short: "go there", help: "go to the thread, the lock or the line that it is about",
			always: true, when: onlyIf(func(m *Model) bool { return len(allFindings(m).list) > 0 }),
			do: on(func(m *Model) tea.Cmd { return goToFinding(m, m.over.finding) })},
		binding{keys: []string{"esc", "!"}, show: "esc", short: "close", always: true, do: closes})}
	return out
}

// overKeys are the other keys that do not close what lies over the screen at once.
var overKeys = []string{"?", "!", "q", "ctrl+c", "ctrl+l", "ctrl+z"}

// drawOverlay draws the lines in a frame over its area; scroll skips some where there are more than fit. It returns the scroll
// that there is room for.
func drawOverlay(a canvas.Area, t *style.Theme, title string, lines []overlayLine, scroll int) int {
	a.Fill(' ', canvas.Style{BG: t.Background})
	frame(a, t, title)
	in := a.Sub(2, 1, a.W-overlayMargin, a.H-2)
	scroll = max(0, min(scroll, len(lines)-in.H))
	for y := range min(in.H, len(lines)-scroll) {
		lines[scroll+y](in.Row(y))
	}
	hidden := ""
	if scroll > 0 {
		hidden += fmt.Sprintf(" ▲%d", scroll)
	}
	if below := len(lines) - scroll - in.H; below > 0 {
		hidden += fmt.Sprintf(" ▼%d", below)
	}
	if hidden != "" {
		hidden += " "
		a.Put(a.W-2-canvas.Width(hidden), a.H-1, hidden, canvas.Style{FG: t.Warn, Attr: canvas.Bold})
	}
	return scroll
}

// frame draws a box around the area, with Lip Gloss's rounded border.
func frame(a canvas.Area, t *style.Theme, title string) {
	b := lipgloss.RoundedBorder()
	st := t.Rule()
	for x := range a.W {
		a.Put(x, 0, b.Top, st)
		a.Put(x, a.H-1, b.Bottom, st)
	}
	for y := range a.H {
		a.Put(0, y, b.Left, st)
		a.Put(a.W-1, y, b.Right, st)
	}
	a.Put(0, 0, b.TopLeft, st)
	a.Put(a.W-1, 0, b.TopRight, st)
	a.Put(0, a.H-1, b.BottomLeft, st)
	a.Put(a.W-1, a.H-1, b.BottomRight, st)
	a.Put(2, 0, title, t.Bold())
}

// overArea is where what lies over the screen is drawn: over the rows between the first and the last.
func overArea(m *Model) canvas.Area {
	a := m.grid.Area()
	if m.width >= maxOverlay+leastBeside {
		return a.Sub((m.width-maxOverlay)/2, 1, maxOverlay, m.height-2)
	}
	return a.Sub(0, 1, m.width, m.height-2)
}

// drawOver draws the overlay that is open. Of what was drawn before, only the keys in the last row answer clicks then.
func drawOver(m *Model) {
	if m.over.what == noOverlay {
		return
	}
	m.zones = slices.DeleteFunc(m.zones, func(z zone) bool { return z.at.Y != m.regions.footer })
	area := overArea(m)
	m.over.height = area.H - 2
	switch m.over.what {
	case helpOverlay:
		m.over.scroll = drawHelp(area, &m.Theme, helpMaps(m), m.readsHelp(), m.over.scroll, m.opt.ASCII)
	case findingsOverlay:
		v := allFindings(m)
		v.drawAll(area, &m.scene, &m.over)
	}
}
