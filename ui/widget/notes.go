package widget

import (
	"slices"

	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// DrawNotes writes the notes on the time axis of a timeline, each from its moment on as far as there is room. One at the right edge
// ends there.
func (v *Timeline) DrawNotes(axis canvas.Area, l scene.Notes, t *style.Theme) {
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
func (v *Timeline) columnAt(ns int64, w int) (x int, ok bool) {
	span := v.ToNS - v.FromNS
	if span <= 0 || v.Cells == 0 || ns <= v.FromNS || ns > v.ToNS {
		return 0, false
	}
	i := int((ns - v.FromNS - 1) * int64(v.Cells) / span)
	for x := range w {
		if CellAt(x, v.Cells, w) == i {
			return x, true
		}
	}
	return 0, false
}
