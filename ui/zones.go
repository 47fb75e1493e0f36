package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/scene"
)

// pressAt does what a click at a place of the screen does, if anything: what was drawn last is on top.
func pressAt(m *Model, x, y int) (cmd tea.Cmd, hit bool) {
	for i := len(m.Zones) - 1; i >= 0; i-- {
		if z := &m.Zones[i]; scene.Inside(z.At, x, y) {
			cmd = z.Press(m, x-z.At.X, y-z.At.Y)
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
