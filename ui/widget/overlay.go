package widget

import (
	"charm.land/lipgloss/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// OverlayLine draws one line of an overlay.
type OverlayLine func(a canvas.Area)

// OverlayMargin is how many columns the frame of an overlay (a box over the screen) takes, on both sides together.
const OverlayMargin = 4

// MaxOverlay limits the width of an overlay (a box over the screen), in columns. If fewer than LeastBeside columns of
// the screen would stay free beside it, the overlay takes the whole width.
const MaxOverlay, LeastBeside = 200, 80

// overlayID says which overlay is open.
type overlayID uint8

const (
	NoOverlay overlayID = iota
	HelpOverlay
	FindingsOverlay
	NumOverlays
)

// Overlay is a box that is drawn over the screen, such as the help, and how far it is scrolled.
type Overlay struct {
	What   overlayID
	Scroll int
	// Finding is the selected finding. Lines has two line numbers: of the finding's first line, and of the line after
	// its last one. Height is how many lines fit into the overlay.
	Finding scene.FindingID
	Lines   [2]int
	Height  int
}

// Toggle opens an overlay, or closes it.
func (o *Overlay) Toggle(what overlayID) {
	if o.What == what {
		what = NoOverlay
	}
	*o = Overlay{What: what}
}

// DrawOverlay draws lines in a frame. The frame covers the area, or only a part of it if there are few lines. scroll is
// how many lines should be skipped at the top. If this would leave empty rows after the last line, DrawOverlay skips
// fewer. It returns how many it has skipped.
func DrawOverlay(a canvas.Area, t *style.Theme, title string, lines []OverlayLine, scroll int) int {
	a = a.Sub(0, 0, a.W, min(a.H, len(lines)+2))
	a.Fill(' ', canvas.Style{BG: t.Background})
	frame(a, t, title)
	in := a.Sub(2, 1, a.W-OverlayMargin, a.H-2)
	scroll = max(0, min(scroll, len(lines)-in.H))
	for y := range min(in.H, len(lines)-scroll) {
		lines[scroll+y](in.Row(y))
	}
	hidden := hiddenText(scroll, len(lines)-scroll-in.H)
	a.Put(a.W-2-canvas.Width(hidden), a.H-1, hidden, canvas.Style{FG: t.Warn, Attr: canvas.Bold})
	return scroll
}

// frame draws a box with a title around the area, with the rounded border of Lip Gloss.
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
