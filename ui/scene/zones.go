package scene

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// MaxTerminal bounds the size of a picture.
const MaxTerminal = 1000

// Drag is a stretch of the time axis being selected with the mouse: columns of it.
type Drag struct {
	From, To int
	// Before and zoom are what was selected when the button went down: only a press that does not become a drag selects.
	Before Selection
	Zoom   flamegraph.Path
}

// Inside reports whether a place of the screen is in an area of it.
func Inside(a canvas.Area, x, y int) bool { return x >= a.X && x < a.X+a.W && y >= a.Y && y < a.Y+a.H }

// DrawDrag marks the columns being selected.
func (sc *Scene) DrawDrag(a canvas.Area) {
	if sc.Drag == nil || sc.Drag.From == sc.Drag.To {
		return
	}
	from, to := min(sc.Drag.From, sc.Drag.To), max(sc.Drag.From, sc.Drag.To)
	a.Sub(from, 0, to-from+1, a.H).Restyle(func(s canvas.Style) canvas.Style { return canvas.Style{FG: s.FG, Attr: s.Attr ^ canvas.Reverse} })
}

// Zone is a part of the picture that a click does something in. What draws it says so while it draws, so that picture and
// clicks can't disagree.
type Zone struct {
	At    canvas.Area
	Press func(h Host, x, y int) tea.Cmd
}

// maxZones bounds the zones of a picture: a few for each row of the largest terminal.
const maxZones = 4 * MaxTerminal

// OnPress makes a part of the picture being drawn answer clicks; press gets the place within it.
func (sc *Scene) OnPress(a canvas.Area, press func(h Host, x, y int) tea.Cmd) {
	if a.W > 0 && a.H > 0 && len(sc.Zones) < maxZones {
		sc.Zones = append(sc.Zones, Zone{a, press})
	}
}
