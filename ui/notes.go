package ui

import (
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// notes are what a person wrote at moments ("deploy rolled back"), by time.
type notes []sampler.Note

// maxNotes bounds the notes that are kept; the oldest goes first.
const maxNotes = 1000

// recordedNotes returns the notes that a recording has.
func recordedNotes(src sampler.Source, names *sampler.Redactor) notes {
	r, ok := src.(interface{ Notes() []sampler.Note })
	if !ok {
		return nil
	}
	var out notes
	for _, n := range names.Notes(r.Notes()) {
		if n.Text = canvas.Clean(n.Text); n.Text != "" {
			out = append(out, n)
		}
	}
	return out[max(len(out)-maxNotes, 0):]
}

func (l *notes) add(n sampler.Note) {
	i, _ := slices.BinarySearchFunc(*l, n.AtNS+1, func(x sampler.Note, at int64) int { return int(min(max(x.AtNS-at, -1), 1)) })
	if *l = slices.Insert(*l, i, n); len(*l) > maxNotes {
		*l = (*l)[1:]
	}
}

// last is the newest note at or before a moment; nil when there is none.
func (l notes) last(atNS int64) *sampler.Note {
	for i := range slices.Backward(l) {
		if l[i].AtNS <= atNS {
			return &l[i]
		}
	}
	return nil
}

// in returns the notes between two times, as lines of a list.
func (l notes) in(fromNS, toNS int64, p *sampler.Process) []string {
	var out []string
	for _, n := range l {
		if n.AtNS > fromNS && n.AtNS <= toNS {
			out = append(out, fmt.Sprintf("%s %s", p.WallTime(n.AtNS).Format("15:04:05"), n.Text))
		}
	}
	return out
}

// draw writes the notes on the time axis of a timeline, each from its moment on as far as there is room. One at the right edge
// ends there.
func (l notes) draw(axis canvas.Area, v *timelineView, t *style.Theme) {
	st := canvas.Style{FG: t.Accent, Attr: canvas.Bold}
	end := axis.W
	for _, n := range slices.Backward(l) {
		x, ok := v.columnAt(n.AtNS, axis.W)
		if !ok {
			continue
		}
		text := "▼" + n.Text
		if room := end - x; room < canvas.Width(text)+1 && end == axis.W {
			text = n.Text + "▼"
			w := min(canvas.Width(text), x+1)
			clearWords(axis, x+1-w, x+1)
			axis.Put(x+1-w, 0, canvas.CutLeft(text, w), st)
			end = x + 1 - w
			continue
		}
		if x < end {
			text = canvas.Cut(text, end-x)
			clearWords(axis, x, x+canvas.Width(text))
			axis.Put(x, 0, text, st)
			end = x
		}
	}
}

// clearWords takes away what stands on a row from one column up to another, and the rest of the words that it cuts: half of
// "-25s" would be another time. Notes that stand there already end with theirs.
func clearWords(a canvas.Area, from, to int) {
	var there []rune
	a.RestyleRunes(func(r rune, s canvas.Style) canvas.Style {
		there = append(there, r)
		return s
	})
	inWord := func(x int) bool { return x >= 0 && x < len(there) && there[x] != ' ' && there[x] != '▼' }
	for inWord(from) && inWord(from-1) {
		from--
	}
	for inWord(to-1) && inWord(to) {
		to++
	}
	a.Sub(from, 0, to-from, 1).Fill(' ', canvas.Style{})
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

// openNote opens the line for a note at the moment that is shown.
func openNote(m *Model) {
	if m.lastNS == 0 {
		m.message.fail("nothing to mark yet: no sample has come")
		return
	}
	atNS := m.atNS
	m.prompt = &prompt{
		label: "note at " + m.process.WallTime(atNS).Format("15:04:05") + ": ",
		hint:  func() string { return "enter puts it on the time axis   esc leaves" },
		left:  func() {},
		done: func(text string) {
			if text = canvas.Clean(text); text == "" {
				return
			}
			n := m.opt.Redactor.Note(sampler.Note{AtNS: atNS, Text: text}) // a person can write anything
			m.notes.add(n)
			m.store.Note(n)
			m.message.say("marked: " + n.Text)
		},
	}
}
