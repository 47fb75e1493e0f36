package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// mouseEach is the least time between two movements of the mouse or its wheel. Movements that come earlier are dropped.
// A trackpad sends hundreds of movements per second, and each one would need a new picture.
const mouseEach = 15 * time.Millisecond

// mouseFilter returns a filter for tea.WithFilter. The filter drops mouse movements that follow each other too closely.
// It never drops presses and releases of a button, because a drag must end exactly where the button is released.
func mouseFilter(now func() time.Time) func(tea.Model, tea.Msg) tea.Msg {
	var last time.Time
	return func(_ tea.Model, msg tea.Msg) tea.Msg {
		switch msg.(type) {
		case tea.MouseMotionMsg, tea.MouseWheelMsg:
			at := now()
			if since := at.Sub(last); since >= 0 && since < mouseEach {
				return nil
			}
			last = at
		}
		return msg
	}
}

// mouse handles an event of the mouse.
func mouse(m *Model, msg tea.MouseMsg) tea.Cmd {
	if m.Width < scene.MinWidth || m.Height < scene.MinHeight || m.LastNS == 0 {
		return nil
	}
	at := msg.Mouse()
	if w, ok := msg.(tea.MouseWheelMsg); ok {
		return wheel(m, w)
	}
	if m.prompt != nil {
		return nil
	}
	if m.over.What != widget.NoOverlay {
		return clickOver(m, msg)
	}
	x := min(max(at.X-m.Regions.CellsX, 0), m.Regions.CellsW-1)
	switch msg.(type) {
	case tea.MouseClickMsg:
		if at.Button != tea.MouseLeft {
			return nil
		}
		m.message.Clear()
		m.Drag = nil
		if onAxis(m, at.X, at.Y) {
			m.Drag = &scene.Drag{From: x, To: x, Before: *m.Selection, Zoom: m.Flame.Zoom}
		}
		return click(m, at.X, at.Y)
	case tea.MouseMotionMsg:
		if m.Drag == nil || m.Drag.To == x {
			return nil
		}
		m.Drag.To = x
		if m.Selected != m.Drag.Before.Selected {
			*m.Selection, m.Flame.Zoom = m.Drag.Before, m.Drag.Zoom
			m.Refresh()
			return nil
		}
		m.Draw()
	case tea.MouseReleaseMsg:
		if d := m.Drag; d != nil {
			d.To, m.Drag = x, nil
			showRange(m, d)
			return m.fetch()
		}
	}
	return nil
}

// clickOver handles a mouse event while an overlay is open. A click beside the overlay closes it.
func clickOver(m *Model, msg tea.MouseMsg) tea.Cmd {
	at := msg.Mouse()
	if _, ok := msg.(tea.MouseClickMsg); !ok || at.Button != tea.MouseLeft {
		return nil
	}
	m.message.Clear()
	cmd, hit := pressAt(m, at.X, at.Y)
	if !hit && !scene.Inside(overArea(m), at.X, at.Y) {
		m.over = widget.Overlay{}
		m.Draw()
	}
	return cmd
}

// onAxis reports whether a place on the screen belongs to a time axis or to the rows under it.
func onAxis(m *Model, x, y int) bool {
	p, ok := m.current().(page.Timed)
	return ok && scene.Inside(p.AxisArea(pageArea(m), &m.Scene), x, y)
}

// click handles a click on the screen: it selects a row, for example. A double click on a row or a frame does the same
// as the key enter.
func click(m *Model, x, y int) tea.Cmd {
	cmd, hit := pressAt(m, x, y)
	// A single click on a view's name or on a key already has an effect. So two clicks are a double click only inside
	// the page.
	body := pageArea(m)
	selects := scene.Inside(body, x, y) && y > body.Y
	if m.Page == scene.PageLive {
		selects = hit && y < m.Regions.Detail
	}
	if !m.lastPress.doubled(x, y, m.Scene.Now()) || !selects || x <= widget.GroupSign {
		return cmd
	}
	b := m.binding("enter")
	if b == nil {
		return cmd
	}
	also := b.Do(m)
	m.Draw()
	return tea.Batch(cmd, also)
}

// wheel handles the mouse wheel. It zooms on views with a time axis, and scrolls on the other views.
func wheel(m *Model, msg tea.MouseWheelMsg) tea.Cmd {
	d, key := 1, "down"
	switch msg.Button {
	case tea.MouseWheelUp:
		d, key = -1, "up"
	case tea.MouseWheelDown:
	default:
		return nil
	}
	if m.prompt != nil {
		return nil
	}
	if p, ok := m.current().(page.Wheeled); ok && m.over.What == widget.NoOverlay {
		if cmd, done := p.Wheel(m, msg.X, msg.Y, d, onAxis(m, msg.X, msg.Y)); done {
			return cmd
		}
	}
	if b := m.binding(key); b != nil {
		cmd := b.Do(m)
		m.Draw()
		return cmd
	}
	return nil
}

// showRange freezes the picture and shows the time span that the user selected with the mouse. If the selection is less
// than two columns wide, showRange handles it as a click.
func showRange(m *Model, d *scene.Drag) {
	v := &m.Timeline
	a, b := widget.CellAt(min(d.From, d.To), v.Cells, m.Regions.CellsW), widget.CellAt(max(d.From, d.To), v.Cells, m.Regions.CellsW)
	if a = max(a, 0); b <= a || d.From == d.To {
		m.Draw()
		return
	}
	each := (v.ToNS - v.FromNS) / int64(v.Cells)
	m.Show(v.FromNS+int64(a)*each, v.FromNS+int64(b+1)*each)
	m.Refresh()
}

// pressAt does what a click at a place means. hit is false if the click has no meaning. Areas of the screen that react
// to clicks are called zones. If several zones contain the place, pressAt uses the one that was drawn last, because it
// is on top.
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

// doubleEach is the longest time between the two presses of the mouse button in a double click.
const doubleEach = 400 * time.Millisecond

// mousePress is the place and the time of the last press of the mouse button.
type mousePress struct {
	x, y int
	at   time.Time
}

// doubled remembers a press of the mouse button, and reports whether it is the second press of a double click.
func (p *mousePress) doubled(x, y int, now time.Time) bool {
	since := now.Sub(p.at)
	if p.x == x && p.y == y && !p.at.IsZero() && since >= 0 && since <= doubleEach {
		*p = mousePress{} // a third press begins a new double click
		return true
	}
	*p = mousePress{x, y, now}
	return false
}
