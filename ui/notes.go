package ui

import (
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// openNote opens the line for a note at the moment that is shown.
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
			n := m.Opt.Redactor.Note(sampler.Note{AtNS: atNS, Text: text}) // a person can write anything
			m.Notes.Add(n)
			m.store.Note(n)
			m.message.Say("marked: " + n.Text)
		},
	}
}
