package ui

import (
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// shownKeys is how many key presses stand in the corner of a presentation.
const shownKeys = 5

// present begins or ends the presentation: larger spacing, no directory names, and key presses in a corner.
func (m *Model) present() {
	m.presenting = !m.presenting
	m.pressed = nil
	m.store.dict.HideDirectories(m.presenting || m.opt.Redact)
	// What was built with the other names is built anew.
	m.flame.builder, m.flame.zoom, m.flame.selected = nil, nil, nil
	if p, ok := m.pages[pageThread].(*threadPage); ok {
		p.builder = nil
	}
	m.flameOf = flameRange{}
	m.refresh()
}

// noteKeyPress keeps a key for the corner. What is typed into a prompt stands there already.
func (m *Model) noteKeyPress(msg tea.KeyPressMsg) {
	if !m.presenting || m.prompt != nil {
		return
	}
	m.pressed = append(m.pressed, msg.String())
	m.pressed = m.pressed[max(0, len(m.pressed)-shownKeys):]
}

// drawPressed writes the last keys into the corner above the footer.
func (m *Model) drawPressed(a canvas.Area, t *Theme) {
	if len(m.pressed) == 0 {
		return
	}
	text := "  " + strings.Join(m.pressed, "  ") + "  "
	y := m.regions.detail - 1
	if m.regions.detail == m.regions.footer {
		y = m.regions.footer - 1
	}
	a.PutRight(y, text, canvas.Style{FG: t.Accent, BG: t.Background, Attr: canvas.Bold | canvas.Reverse})
}

// shareable is the description of the process for files that are handed on.
func (m *Model) shareable() sampler.Process {
	if m.presenting || m.opt.Redact {
		return recording.Redact(m.process)
	}
	return m.process
}
