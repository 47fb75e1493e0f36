package ui

import (
	"regexp"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/gvl"
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
	m.store.dict.HideDirectories(m.hidesNames())
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

// hidesNames tells whether directories, users and hosts are not to be seen.
func (m *Model) hidesNames() bool { return m.presenting || m.opt.Redact }

// absolutePath is one in a text: what stands before it, and its last name.
var absolutePath = regexp.MustCompile(`(^|[\s"'(])/(?:[^/\s"'(),:;]+/)*([^/\s"'(),:;]+)`)

// showable is a text that may name files, without their directories where these are hidden.
func (m *Model) showable(text string) string {
	if !m.hidesNames() {
		return text
	}
	return absolutePath.ReplaceAllString(text, "$1$2")
}

// showableFindings are findings whose texts name no directories where these are hidden: some were judged before.
func (m *Model) showableFindings(list []gvl.Finding) []gvl.Finding {
	if !m.hidesNames() {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Text = m.showable(list[i].Text)
	}
	return list
}

// shareable is the description of the process for files that are handed on.
func (m *Model) shareable() sampler.Process {
	if m.hidesNames() {
		return recording.Redact(m.process)
	}
	return m.process
}
