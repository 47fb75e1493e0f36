package ui

import (
	"fmt"
	"slices"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// note is what a person wrote at a moment: "deploy rolled back".
type note struct {
	atNS int64
	text string
}

// maxNotes bounds the notes that are kept; the oldest goes first.
const maxNotes = 1000

// openNote opens the line for a note at the moment that is shown.
func (m *Model) openNote() {
	if m.lastNS == 0 {
		m.message.fail("nothing to mark yet: no sample has come")
		return
	}
	m.prompt = &prompt{label: "note at " + m.process.WallTime(m.atNS).Format("15:04:05") + ": ", note: true, atNS: m.atNS}
}

// noteKey edits a note.
func (m *Model) noteKey(msg tea.KeyPressMsg) {
	p := m.prompt
	switch msg.String() {
	case "enter":
		m.prompt = nil
		if text := canvas.Clean(string(p.text)); text != "" {
			text = m.opt.Redactor.Note(sampler.Note{Text: text}).Text // a person can write anything
			m.addNote(note{p.atNS, text})
			m.store.note(sampler.Note{AtNS: p.atNS, Text: text})
			m.message.say("marked: " + text)
		}
	case "esc", "ctrl+c":
		m.prompt = nil
	default:
		p.edit(msg)
	}
	m.draw()
}

func (m *Model) addNote(n note) {
	i, _ := slices.BinarySearchFunc(m.notes, n.atNS+1, func(x note, at int64) int { return int(min(max(x.atNS-at, -1), 1)) })
	m.notes = slices.Insert(m.notes, i, n)
	if len(m.notes) > maxNotes {
		m.notes = m.notes[1:]
	}
}

// recordedNotes returns the notes that a recording has.
func recordedNotes(src sampler.Source, names *sampler.Redactor) []note {
	r, ok := src.(interface{ Notes() []sampler.Note })
	if !ok {
		return nil
	}
	var out []note
	for _, n := range names.Notes(r.Notes()) {
		if text := canvas.Clean(n.Text); text != "" {
			out = append(out, note{n.AtNS, text})
		}
	}
	return out[max(len(out)-maxNotes, 0):]
}

// sharedNotes returns the notes for a file.
func (m *scene) sharedNotes() []sampler.Note {
	out := make([]sampler.Note, 0, len(m.notes))
	for _, n := range m.notes {
		out = append(out, sampler.Note{AtNS: n.atNS, Text: n.text})
	}
	return out
}

// drawNotes writes the notes on the time axis, each from its moment on as far as there is room. One at the right edge ends
// there.
func (m *scene) drawNotes(axis canvas.Area, t *Theme) {
	st := canvas.Style{FG: t.Accent, Attr: canvas.Bold}
	end := axis.W
	for _, n := range slices.Backward(m.notes) {
		x, ok := m.timeline.columnAt(n.atNS, axis.W)
		if !ok {
			continue
		}
		text := "▼" + n.text
		if room := end - x; room < canvas.Width(text)+1 && end == axis.W {
			text = n.text + "▼"
			w := min(canvas.Width(text), x+1)
			axis.Put(x+1-w, 0, canvas.CutLeft(text, w), st)
			end = x + 1 - w
			continue
		}
		if x < end {
			axis.Put(x, 0, canvas.Cut(text, end-x), st)
			end = x
		}
	}
}

// columnAt returns the column of a time axis of w columns that holds a moment; ok is false when none does.
func (v *timelineView) columnAt(ns int64, w int) (x int, ok bool) {
	span := v.toNS - v.fromNS
	if span <= 0 || v.cells == 0 || ns <= v.fromNS || ns > v.toNS {
		return 0, false
	}
	i := int((ns - v.fromNS - 1) * int64(v.cells) / span)
	for x := range w {
		if cellAt(x, v.cells, w) == i {
			return x, true
		}
	}
	return 0, false
}

// notesIn returns the notes between two times, as lines of a list.
func (m *scene) notesIn(fromNS, toNS int64) []string {
	var out []string
	for _, n := range m.notes {
		if n.atNS > fromNS && n.atNS <= toNS {
			out = append(out, fmt.Sprintf("%s %s", m.process.WallTime(n.atNS).Format("15:04:05"), n.text))
		}
	}
	return out
}
