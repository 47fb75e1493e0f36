package ui

import (
	"charm.land/lipgloss/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
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
)

// overlay is what lies over the screen, and from which line on it is shown.
type overlay struct {
	what   overlayID
	scroll int
}

// toggle opens an overlay, or closes it.
func (o *overlay) toggle(what overlayID) {
	if o.what == what {
		what = noOverlay
	}
	*o = overlay{what: what}
}

// overlayPage is how many lines of an overlay the page keys go.
const overlayPage = 10

// key scrolls, or closes the overlay.
func (o *overlay) key(key string) {
	switch key {
	case "up", "k":
		o.scroll = max(0, o.scroll-1)
	case "down", "j":
		o.scroll++
	case "pgup":
		o.scroll = max(0, o.scroll-overlayPage)
	case "pgdown":
		o.scroll += overlayPage
	default:
		*o = overlay{}
	}
}

// drawOverlay draws the lines in a frame over its area; scroll skips some where there are more than fit. It returns the scroll
// that there is room for.
func drawOverlay(a canvas.Area, t *Theme, title string, lines []overlayLine, scroll int) int {
	a.Fill(' ', canvas.Style{BG: t.Background})
	frame(a, t, title)
	in := a.Sub(2, 1, a.W-overlayMargin, a.H-2)
	scroll = max(0, min(scroll, len(lines)-in.H))
	for y := range min(in.H, len(lines)-scroll) {
		lines[scroll+y](in.Row(y))
	}
	foot := " esc closes "
	if len(lines) > in.H {
		foot = " ↑ ↓ scrolls · esc closes "
	}
	a.Put(a.W-2-canvas.Width(foot), a.H-1, foot, t.dim())
	return scroll
}

// frame draws a box around the area, with Lip Gloss's rounded border.
func frame(a canvas.Area, t *Theme, title string) {
	b := lipgloss.RoundedBorder()
	st := t.line()
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
	a.Put(2, 0, title, t.bold())
}

// drawOver draws the overlay that is open, over the rows between the first and the last.
func (m *Model) drawOver(a canvas.Area, t *Theme) {
	if m.over.what == noOverlay {
		return
	}
	area := a.Sub(0, 1, m.width, m.height-2)
	if m.width >= maxOverlay+leastBeside {
		area = a.Sub((m.width-maxOverlay)/2, 1, maxOverlay, m.height-2)
	}
	switch m.over.what {
	case helpOverlay:
		m.over.scroll = drawHelp(area, t, m.helpMaps(), m.figures.readsHelp(&m.process), m.over.scroll, m.opt.ASCII)
	case findingsOverlay:
		v := m.findings
		if m.page == pageProcesses {
			v = m.fleet.page.worst(&m.scene)
		}
		m.over.scroll = v.drawAll(area, t, m.over.scroll)
	}
}
