package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// zone is a part of the picture that a click does something in. What draws it says so while it draws, so that picture and
// clicks can't disagree.
type zone struct {
	at    canvas.Area
	press func(h Host, x, y int) tea.Cmd
}

// maxZones bounds the zones of a picture: a few for each row of the largest terminal.
const maxZones = 4 * maxTerminal

// onPress makes a part of the picture being drawn answer clicks; press gets the place within it.
func (sc *scene) onPress(a canvas.Area, press func(h Host, x, y int) tea.Cmd) {
	if a.W > 0 && a.H > 0 && len(sc.zones) < maxZones {
		sc.zones = append(sc.zones, zone{a, press})
	}
}

// pressAt does what a click at a place of the screen does, if anything: what was drawn last is on top.
func pressAt(m *Model, x, y int) (cmd tea.Cmd, hit bool) {
	for i := len(m.zones) - 1; i >= 0; i-- {
		if z := &m.zones[i]; inside(z.at, x, y) {
			cmd = z.press(m, x-z.at.X, y-z.at.Y)
			m.Draw()
			return cmd, true
		}
	}
	return nil, false
}

// doubleEach is the longest time between the two presses of a double click.
const doubleEach = 400 * time.Millisecond

// mousePress is where and when the mouse was pressed last.
type mousePress struct {
	x, y int
	at   time.Time
}

// doubled notes a press and reports whether it is the second of a double click.
func (p *mousePress) doubled(x, y int, now time.Time) bool {
	since := now.Sub(p.at)
	if p.x == x && p.y == y && !p.at.IsZero() && since >= 0 && since <= doubleEach {
		*p = mousePress{} // a third one begins again
		return true
	}
	*p = mousePress{x, y, now}
	return false
}
