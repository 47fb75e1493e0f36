package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// draw draws the picture from the scene. The caller must load the scene's data before.
func draw(m *Model) {
	paint(m)
	fitTerminal(&m.grid, &m.Opt, &m.Colors)
	m.drawn++
}

// fitTerminal changes a picture so that it has only characters and colours that the terminal can show.
func fitTerminal(g *canvas.Grid, o *scene.Options, c *style.Colors) {
	if o.ASCII {
		g.ToASCII()
	}
	if o.NoColor {
		g.Area().Restyle(canvas.Style.Colorless)
	} else {
		c.Apply(g.Area())
	}
}

// paint draws into the grid.
func paint(m *Model) {
	g, t := &m.grid, &m.Theme
	g.Reset(m.Width, m.Height)
	m.Zones = m.Zones[:0]
	if m.Width == 0 || m.Height == 0 {
		return
	}
	a := g.Area()
	if m.Width < scene.MinWidth || m.Height < scene.MinHeight {
		drawTooSmall(a, t)
		return
	}
	r := &m.Regions
	if m.Page == scene.PageProcesses {
		m.fleet.page.DrawTop(a, &m.Scene, head(m))
	} else {
		head := head(m)
		head.Draw(a.Row(r.Head), t)
		widget.DrawFindings(&m.Findings, a.Sub(0, r.Findings, m.Width, r.FindingRows), &m.Scene)
		requests := &m.Served
		if m.Page == scene.PageRequests { // the line above the table of this page already shows the requests
			requests = new(scene.Served)
		}
		widget.DrawGauges(a.Row(r.Gauges), &m.Figures, requests, t)
	}
	drawPage(m)
	m.pressed.draw(a, r.Detail-1, t)
	drawFooter(m, a, t)
	drawOver(m)
}

// head returns the contents of the screen's first line.
func head(m *Model) widget.Head {
	h := widget.Head{Process: m.Shareable(), State: m.ShowableState(m.Source), Live: !m.Frozen, AtNS: m.AtNS, BehindNS: m.LastNS - m.AtNS,
		NowNS: m.LastNS, WindowNS: m.WindowNS, SpanNS: m.AtNS - max(m.FromNS, m.OldestNS), StepNS: m.StepNS(),
		Replay: m.Opt.Replay, Recording: m.recordKey.on, Playing: m.Playing, Speed: m.Factor(), Loaded: loaded(m),
		Played: style.Share(m.AtNS-m.OldestNS, m.LastNS-m.OldestNS), Figures: &m.Figures, Exact: m.Exact, Switches: m.Switches}
	h.More = m.moreKey.left(&m.Scene)
	if m.fleet != nil {
		h.Number, h.Of = m.fleet.which(m)
	}
	return h
}

// loaded returns how much of a recording has been read, from 0 to 1. It is 1 if no recording is being read.
func loaded(m *Model) float64 {
	r, ok := m.store.Src.(interface {
		Span() (firstNS, lastNS int64)
	})
	if !m.Opt.Replay || m.Source.Done || !ok {
		return 1
	}
	first, last := r.Span()
	return min(max(style.Share(m.LastNS-first, last-first), 0), 1)
}

func drawTooSmall(a canvas.Area, t *style.Theme) {
	lines := []string{"ddtop needs a terminal of at least", "60 columns by 15 rows (80x24 is better).", "Make it larger, or press q to quit."}
	for y, s := range lines {
		a.Put(max(0, (a.W-canvas.Width(s))/2), max(0, a.H/2-1)+y, s, t.Plain())
	}
}

func (m *Model) picture() (g *canvas.Grid, number int) { return &m.grid, m.drawn }

// View returns the terminal's modes, such as whether it reports the mouse. It returns no picture, because the painter
// draws the picture.
func (m *Model) View() tea.View {
	v := paintedView(canvas.Clean("ddtop " + m.Process.Name()))
	if !m.Opt.NoMouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}
