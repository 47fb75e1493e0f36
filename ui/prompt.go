package ui

import (
	"unicode"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// maxPrompt limits how many characters the user can type into the input line.
const maxPrompt = 200

// prompt is a line for typing text.
type prompt struct {
	label string
	text  []rune
	err   string        // why the text can't be used
	hint  func() string // what the keys do, and the result of the text so far
	typed func()        // called after every change of the text, or nil
	done  func(text string)
	left  func()
	// yes is set if the prompt is a question. The user can answer it only with y or n. forms are texts of this
	// question, the longest first. The screen shows the first text that fits into the line.
	yes   func() tea.Cmd
	forms []string
	// cmd is the command of the answer.
	cmd tea.Cmd
}

// key handles a key press in the input line. It reports whether the line stays open.
func (p *prompt) key(msg tea.KeyPressMsg) bool {
	if p.yes != nil {
		return p.answer(msg.String())
	}
	switch msg.String() {
	case "enter":
		p.done(string(p.text))
		return false
	case "esc", "ctrl+c":
		p.left()
		return false
	case "backspace":
		if len(p.text) == 0 {
			return p.typed == nil
		}
		p.text = p.text[:len(p.text)-1]
	case "ctrl+u":
		p.text = p.text[:0]
	default:
		p.put(msg.Key().Text)
		return true
	}
	if p.typed != nil {
		p.typed()
	}
	return true
}

// answer handles a key press that answers a question. It reports whether the question stays open.
func (p *prompt) answer(key string) bool {
	switch key {
	case "y", "Y", "shift+y":
		p.cmd = p.yes()
	case "n", "N", "shift+n", "q", "esc", "ctrl+c":
		p.left()
	default:
		return true
	}
	return false
}

// put appends typed or pasted text.
func (p *prompt) put(text string) {
	if p.yes != nil {
		return // pasted text is not an answer
	}
	for _, r := range text {
		if unicode.IsPrint(r) && len(p.text) < maxPrompt {
			p.text = append(p.text, r)
		}
	}
	if p.typed != nil {
		p.typed()
	}
}

func (p *prompt) draw(a canvas.Area, t *style.Theme) {
	if p.yes != nil {
		hint := p.hint()
		x := a.Put(1, 0, p.label, t.Bold())
		x = a.Put(x, 0, style.Fit(p.forms, a.W-x-canvas.Width(hint)-3), t.Bold())
		a.Put(x+2, 0, hint, canvas.Style{FG: t.Accent, Attr: canvas.Bold})
		return
	}
	x := a.Put(1, 0, p.label+canvas.CutLeft(string(p.text), a.W-3-canvas.Width(p.label)), t.Bold())
	a.Put(x, 0, " ", canvas.Style{Attr: canvas.Reverse})
	hint, st := p.hint(), t.Dimmed()
	if p.err != "" {
		hint, st = p.err, canvas.Style{FG: t.Warn}
	}
	if x+3+canvas.Width(hint) <= a.W {
		a.PutRight(0, hint+" ", st)
	} else {
		a.Put(x+2, 0, canvas.Cut(hint, a.W-x-3), st)
	}
}

// foundText returns a text that says how many results the search has in the view.
func foundText(m *Model) string {
	if p, ok := m.current().(page.Counted); ok {
		return p.Found()
	}
	s := m.Threads.Counted()
	if hasFlame(m) {
		return units.Percent(m.Flame.Matches.Share) + " of the time is in a match, " + s
	}
	return s
}

// openSearch opens the input line for a search. After each typed letter the view shows the new results.
func openSearch(m *Model) {
	v, before := &m.Flame, m.Flame.Search
	p := &prompt{label: "/", left: func() { v.Search = before }}
	if before != nil {
		p.text = []rune(widget.StripCase(before.String()))
	}
	p.hint = func() string {
		s := "enter keeps it   esc leaves"
		if hasFlame(m) {
			s = "enter selects the first match   esc leaves"
		}
		if v.Search != nil {
			s = foundText(m) + "   " + s
		}
		return s
	}
	p.typed = func() {
		p.err = ""
		if len(p.text) == 0 {
			v.Search = nil
		} else if re, err := widget.CompileSearch(string(p.text)); err != nil {
			p.err = err.Error()
		} else {
			v.Search = re
		}
	}
	p.done = func(string) {
		if v.Search == nil || !hasFlame(m) {
			return
		}
		if m.Page == scene.PageLive && len(v.Matches.Nodes) == 0 {
			m.Focus = scene.OnTimeline // only names of threads match
			return
		}
		m.Focus = scene.OnFlame
		v.NextMatch(+1)
	}
	m.prompt = p
}

// openNote opens the input line for a note. The note will belong to the moment that the screen shows.
func openNote(m *Model) {
	if m.LastNS == 0 {
		m.message.Fail("nothing to mark yet: no sample has come")
		return
	}
	atNS := m.AtNS
	m.prompt = &prompt{
		label: "note at " + m.Process.WallTime(atNS).Format("15:04:05") + ": ",
		hint:  func() string { return "enter puts it on the time axis   esc leaves" },
		left:  func() {},
		done: func(text string) {
			if text = canvas.Clean(text); text == "" {
				return
			}
			// a note can hold any text, also text that must be hidden
			n := m.Opt.Redactor.Note(sampler.Note{AtNS: atNS, Text: text})
			m.Notes.Add(n)
			m.store.Note(n)
			m.message.Say("marked: " + n.Text)
		},
	}
}
