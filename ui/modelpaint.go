package ui

import (
	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// draw makes the picture from what the Model holds.
func draw(m *Model) {
	paint(m)
	if m.opt.ASCII {
		m.grid.ToASCII()
	}
	if m.opt.NoColor {
		m.grid.Area().Restyle(canvas.Style.Colorless)
	} else {
		m.Colors.Apply(m.grid.Area())
	}
	m.drawn++
}

// paint draws into the grid.
func paint(m *Model) {
	g, t := &m.grid, &m.Theme
	g.Reset(m.width, m.height)
	m.zones = m.zones[:0]
	if m.width == 0 || m.height == 0 {
		return
	}
	a := g.Area()
	if m.width < minWidth || m.height < minHeight {
		drawTooSmall(a, t)
		return
	}
	r := &m.regions
	if m.page == pageProcesses {
		m.fleet.page.drawTop(a, &m.scene, head(m))
	} else {
		head := head(m)
		head.draw(a.Row(r.head), t)
		m.findings.draw(a.Sub(0, r.findings, m.width, r.findingRows), &m.scene)
		requests := &m.served
		if m.page == pageRequests { // whose rule has them
			requests = new(served)
		}
		drawGauges(a.Row(r.gauges), &m.figures, requests, t)
	}
	drawPage(m)
	m.pressed.draw(a, r.detail-1, t)
	drawFooter(m, a, t)
	drawOver(m)
}

// head is what the first line is drawn from.
func head(m *Model) headView {
	h := headView{process: m.shareable(), state: m.showableState(m.source), live: !m.frozen, atNS: m.atNS, behindNS: m.lastNS - m.atNS,
		nowNS: m.lastNS, windowNS: m.windowNS, spanNS: m.atNS - max(m.fromNS, m.oldestNS), stepNS: m.stepNS(),
		replay: m.opt.Replay, recording: m.recordKey.on, playing: m.playing, speed: m.factor(), loaded: loaded(m),
		played: style.Share(m.atNS-m.oldestNS, m.lastNS-m.oldestNS), figures: &m.figures, exact: m.exact, switches: m.switches}
	if m.fleet != nil {
		h.number, h.of = m.fleet.which(m)
	}
	return h
}

// loaded returns which share of a recording has been read; 1 where nothing is being read in.
func loaded(m *Model) float64 {
	r, ok := m.store.Src.(interface {
		Span() (firstNS, lastNS int64)
	})
	if !m.opt.Replay || m.source.Done || !ok {
		return 1
	}
	first, last := r.Span()
	return min(max(style.Share(m.lastNS-first, last-first), 0), 1)
}

// nowWord is the word for the end of the time shown.
func (sc *scene) nowWord() string {
	switch {
	case sc.frozen:
		return "then"
	case sc.source.Ended:
		return "end"
	}
	return "now"
}

// when says which time the flamegraph covers.
func (sc *scene) when() string {
	span := style.AxisTime(sc.windowNS)
	if sc.frozen {
		return span + " until " + sc.process.WallTime(sc.atNS).Format("15:04:05")
	}
	return "last " + span
}

func drawTooSmall(a canvas.Area, t *style.Theme) {
	lines := []string{"ddtop needs a terminal of at least", "60 columns by 15 rows (80x24 is better).", "Make it larger, or press q to quit."}
	for y, s := range lines {
		a.Put(max(0, (a.W-canvas.Width(s))/2), max(0, a.H/2-1)+y, s, t.Plain())
	}
}

func (m *Model) picture() (g *canvas.Grid, number int) { return &m.grid, m.drawn }

// View says which modes the terminal is in; the picture is painted.
func (m *Model) View() tea.View {
	v := paintedView(canvas.Clean("ddtop " + m.process.Title))
	if !m.opt.NoMouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	return v
}
