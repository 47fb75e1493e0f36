package ui

import (
	"regexp"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// maxPrompt bounds what can be typed.
const maxPrompt = 200

// prompt is the line in which a search is typed. The flamegraph follows with every letter.
type prompt struct {
	text   []rune
	err    string
	before *regexp.Regexp // the search to return to on esc

	// label stands before the text of a note, which is taken at atNS.
	label string
	note  bool
	atNS  int64
}

// edit takes a key that changes the text.
func (p *prompt) edit(msg tea.KeyPressMsg) {
	switch msg.String() {
	case "backspace":
		p.text = p.text[:max(len(p.text)-1, 0)]
	case "ctrl+u":
		p.text = p.text[:0]
	default:
		for _, r := range msg.Key().Text {
			if len(p.text) < maxPrompt {
				p.text = append(p.text, r)
			}
		}
	}
}

func (m *Model) openSearch() {
	m.prompt = &prompt{before: m.flame.search}
	if m.flame.search != nil {
		m.prompt.text = []rune(stripCase(m.flame.search.String()))
	}
	m.draw()
}

// ignoreCase is what a search begins with unless it holds an upper-case letter.
const ignoreCase = "(?i)"

func stripCase(s string) string {
	if len(s) >= len(ignoreCase) && s[:len(ignoreCase)] == ignoreCase {
		return s[len(ignoreCase):]
	}
	return s
}

// compileSearch makes the expression of a search: without regard to case unless an upper-case letter is in it.
func compileSearch(s string) (*regexp.Regexp, error) {
	for _, r := range s {
		if r >= 'A' && r <= 'Z' {
			return regexp.Compile(s)
		}
	}
	return regexp.Compile(ignoreCase + s)
}

func (m *Model) promptKey(msg tea.KeyPressMsg) {
	p := m.prompt
	if p.note {
		m.noteKey(msg)
		return
	}
	switch msg.String() {
	case "enter":
		m.prompt = nil
		if m.flame.search != nil {
			m.live.focus = onFlame
			m.flame.nextMatch(+1)
		}
	case "esc", "ctrl+c":
		m.flame.search = p.before
		m.prompt = nil
	case "backspace":
		if len(p.text) == 0 {
			m.prompt = nil
			break
		}
		p.edit(msg)
		m.applySearch()
	default:
		p.edit(msg)
		m.applySearch()
	}
	m.refresh()
}

func (m *Model) applySearch() {
	p := m.prompt
	p.err = ""
	if len(p.text) == 0 {
		m.flame.search = nil
		return
	}
	re, err := compileSearch(string(p.text))
	if err != nil {
		p.err = err.Error()
		return
	}
	m.flame.search = re
}

func (m *Model) drawPrompt(a canvas.Area, t *Theme) {
	p := m.prompt
	label, note := "/", "enter selects the first match   esc leaves"
	if p.note {
		label, note = p.label, "enter puts it on the time axis   esc leaves"
	}
	x := a.Put(1, 0, label+canvas.CutLeft(string(p.text), a.W-3-canvas.Width(label)), t.bold())
	a.Put(x, 0, " ", canvas.Style{Attr: canvas.Reverse})
	st := t.dim()
	switch {
	case p.note:
	case p.err != "":
		note, st = p.err, canvas.Style{FG: t.Warn}
	case m.flame.search != nil:
		note = units.Percent(m.flame.matches.Share) + " of the time is in a match   " + note
	}
	if x+3+canvas.Width(note) <= a.W {
		a.PutRight(0, note+" ", st)
	} else {
		a.Put(x+2, 0, canvas.Cut(note, a.W-x-3), st)
	}
}
