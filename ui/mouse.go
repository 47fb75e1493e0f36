package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// mouseEach is the least time between two movements of the mouse or its wheel that are looked at: a trackpad sends
// hundreds a second, each of which would cost a picture.
const mouseEach = 15 * time.Millisecond

// mouseFilter returns a filter for tea.WithFilter that leaves out movements that come too close on each other. Presses
// and releases always pass: a drag ends where the button was let go.
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

// drag is a stretch of the time axis being selected with the mouse: columns of it.
type drag struct {
	from, to int
	// before and zoom are what was selected when the button went down: only a press that does not become a drag selects.
	before selection
	zoom   flamegraph.Path
}

// mouse takes an event of the mouse.
func mouse(m *Model, msg tea.MouseMsg) tea.Cmd {
	if m.width < minWidth || m.height < minHeight || m.lastNS == 0 {
		return nil
	}
	at := msg.Mouse()
	if w, ok := msg.(tea.MouseWheelMsg); ok {
		return wheel(m, w)
	}
	if m.prompt != nil {
		return nil
	}
	if m.over.what != noOverlay {
		return clickOver(m, msg)
	}
	x := min(max(at.X-m.regions.cellsX, 0), m.regions.cellsW-1)
	switch msg.(type) {
	case tea.MouseClickMsg:
		if at.Button != tea.MouseLeft {
			return nil
		}
		m.message.clear()
		m.drag = nil
		if onAxis(m, at.X, at.Y) {
			m.drag = &drag{x, x, *m.selection, m.flame.zoom}
		}
		return click(m, at.X, at.Y)
	case tea.MouseMotionMsg:
		if m.drag == nil || m.drag.to == x {
			return nil
		}
		m.drag.to = x
		if m.selected != m.drag.before.selected {
			*m.selection, m.flame.zoom = m.drag.before, m.drag.zoom
			m.Refresh()
			return nil
		}
		m.Draw()
	case tea.MouseReleaseMsg:
		if d := m.drag; d != nil {
			d.to, m.drag = x, nil
			showRange(m, d)
			return m.wanted()
		}
	}
	return nil
}

// clickOver takes an event of the mouse while something lies over the screen: a click beside that closes it.
func clickOver(m *Model, msg tea.MouseMsg) tea.Cmd {
	at := msg.Mouse()
	if _, ok := msg.(tea.MouseClickMsg); !ok || at.Button != tea.MouseLeft {
		return nil
	}
	m.message.clear()
	cmd, hit := pressAt(m, at.X, at.Y)
	if !hit && !inside(overArea(m), at.X, at.Y) {
		m.over = overlay{}
		m.Draw()
	}
	return cmd
}

// onAxis reports whether a place is on a time axis or the rows under it.
func onAxis(m *Model, x, y int) bool {
	p, ok := m.current().(timed)
	return ok && inside(p.axisArea(pageArea(m), &m.scene), x, y)
}

// inside reports whether a place of the screen is in an area of it.
func inside(a canvas.Area, x, y int) bool { return x >= a.X && x < a.X+a.W && y >= a.Y && y < a.Y+a.H }

// groupSign is the last column that opens and closes a group when it is clicked.
const groupSign = 2

// click does what was clicked does: rows and frames are selected, and a double click on them is enter.
func click(m *Model, x, y int) tea.Cmd {
	cmd, hit := pressAt(m, x, y)
	// The rows with the views' names and the keys do what they name with the first click.
	body := pageArea(m)
	selects := inside(body, x, y) && y > body.Y
	if m.page == pageLive {
		selects = hit && y < m.regions.detail
	}
	if !m.lastPress.doubled(x, y, m.now()) || !selects || x <= groupSign {
		return cmd
	}
	b := m.binding("enter")
	if b == nil {
		return cmd
	}
	also := b.do(m)
	m.Draw()
	return tea.Batch(cmd, also)
}

// selectAt selects the frame drawn at a place of the flamegraph, in an area of the height.
func (v *flameView) selectAt(x, y, height int) {
	if y = v.rowAt(y, height); y < 0 {
		return
	}
	row := v.picture.Rows[y]
	for i := range row {
		if c := &row[i]; c.Node != nil && x >= c.X && x < c.X+c.W {
			v.selectNode(c.Node)
		}
	}
}

// wheel zooms the time where time is drawn, and scrolls everywhere else.
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
	if p, ok := m.current().(wheeled); ok && m.over.what == noOverlay {
		if cmd, done := p.wheel(m, msg.X, msg.Y, d, onAxis(m, msg.X, msg.Y)); done {
			return cmd
		}
	}
	if b := m.binding(key); b != nil {
		cmd := b.do(m)
		m.Draw()
		return cmd
	}
	return nil
}

// showRange freezes the picture at the stretch of time that was selected. Less than two columns are a click.
func showRange(m *Model, d *drag) {
	v := &m.timeline
	a, b := cellAt(min(d.from, d.to), v.cells, m.regions.cellsW), cellAt(max(d.from, d.to), v.cells, m.regions.cellsW)
	if a = max(a, 0); b <= a || d.from == d.to {
		m.Draw()
		return
	}
	each := (v.toNS - v.fromNS) / int64(v.cells)
	m.show(v.fromNS+int64(a)*each, v.fromNS+int64(b+1)*each)
	m.Refresh()
}

// drawDrag marks the columns being selected.
func (sc *scene) drawDrag(a canvas.Area) {
	if sc.drag == nil || sc.drag.from == sc.drag.to {
		return
	}
	from, to := min(sc.drag.from, sc.drag.to), max(sc.drag.from, sc.drag.to)
	a.Sub(from, 0, to-from+1, a.H).Restyle(func(s canvas.Style) canvas.Style { return canvas.Style{FG: s.FG, Attr: s.Attr ^ canvas.Reverse} })
}
