package ui

import (
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// overlayKeys returns the keys that work while an overlay is open, for each overlay. An overlay is a box over the
// screen, such as the help.
func overlayKeys() (out [widget.NumOverlays]scene.KeyMap) {
	closes := on(func(m *Model) tea.Cmd { m.over = widget.Overlay{}; return nil })
	scroll := func(h scene.Host, by widget.Step) tea.Cmd {
		m := h.(*Model)
		m.over.Scroll = max(0, m.over.Scroll+by.Rows+by.Screens*max(m.over.Height-1, 1))
		return nil
	}
	out[widget.HelpOverlay] = scene.KeyMap{Title: "help", Bindings: append(widget.CursorKeys("scroll", "scroll", scroll),
		scene.Binding{Keys: []string{"esc", "?"}, Show: "esc", Short: "close", Always: true, Do: closes})}
	out[widget.FindingsOverlay] = scene.KeyMap{Title: "findings", Bindings: append(widget.CursorKeys("select", "select a finding", func(h scene.Host, by widget.Step) tea.Cmd { return moveFinding(h.(*Model), by) }),
		scene.Binding{Keys: []string{"enter"}, Show: "enter", Short: "go there", Help: "go to the thread, the lock or the line that it is about",
			Always: true, When: onlyIf(func(m *Model) bool { return len(allFindings(m).List) > 0 }),
			Do: on(func(m *Model) tea.Cmd { return goToFinding(m, m.over.Finding) })},
		scene.Binding{Keys: []string{"esc", "!"}, Show: "esc", Short: "close", Always: true, Do: closes})}
	return out
}

// overKeys are the global keys that have their usual effect while an overlay (a box over the screen) is open. Any other
// key that the overlay does not use first closes it.
var overKeys = []string{"?", "!", "q", "ctrl+c", "ctrl+l", "ctrl+z"}

// overArea returns the area in which overlays are drawn: all rows except the first and the last.
func overArea(m *Model) canvas.Area {
	a := m.grid.Area()
	if m.Width >= widget.MaxOverlay+widget.LeastBeside {
		return a.Sub((m.Width-widget.MaxOverlay)/2, 1, widget.MaxOverlay, m.Height-2)
	}
	return a.Sub(0, 1, m.Width, m.Height-2)
}

// drawOver draws the open overlay, such as the help. While it is open, clicks on the screen around it have no effect.
// Only the keys in the last row can still be clicked.
func drawOver(m *Model) {
	if m.over.What == widget.NoOverlay {
		return
	}
	m.Zones = slices.DeleteFunc(m.Zones, func(z scene.Zone) bool { return z.At.Y != m.Regions.Footer })
	area := overArea(m)
	m.over.Height = area.H - 2
	switch m.over.What {
	case widget.HelpOverlay:
		m.over.Scroll = drawHelp(area, &m.Theme, helpMaps(m), widget.ReadsHelp(&m.Scene), m.over.Scroll, m.Opt.ASCII)
	case widget.FindingsOverlay:
		v := allFindings(m)
		widget.DrawAllFindings(&v, area, &m.Scene, &m.over)
	}
}
