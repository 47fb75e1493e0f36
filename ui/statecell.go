package ui

import (
	"math"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// loudWait is the share of a column from which on a wait in it is drawn in bold.
const loudWait = 0.1

// shade returns a colour in a strength, 0 to 1.
func (t *Theme) shade(c canvas.Color, strength float64) canvas.Color {
	if t.Flat {
		return c
	}
	return t.Background.Mix(c, strength)
}

// stateCell returns what a column of the timeline looks like: the glyph is the state with the largest share, the ground
// its colour, the stronger the larger the share. A column in which the thread also waited says so: the block of running
// is cut at the top, the other letters are underlined and take the colour of waiting.
func (t *Theme) stateCell(c *gvl.Cell, ascii bool) (rune, canvas.Style) {
	s := c.Dominant
	full := t.States[s]
	// 40 % is about the least share a dominant state has; below full strength the ground must stay recognisable.
	strength := 0.35 + 0.65*math.Pow(min(max((c.Share-0.3)/0.7, 0), 1), 0.8)
	bg := t.shade(full, strength)
	glyph := s.Glyph()
	if ascii {
		glyph = rune(s.Letter())
	}
	waitedToo := c.Waited && s != gvl.Waiting
	if s == gvl.Running && !ascii {
		st := canvas.Style{FG: bg, BG: bg}
		if waitedToo {
			waited := share(c.NS[gvl.Waiting], c.Listed())
			levels := []rune("▇▆▅▄")
			glyph = levels[min(int(waited*8), len(levels)-1)]
			st.BG = t.States[gvl.Waiting]
		}
		return glyph, st
	}
	st := on(bg)
	if s.Idle() {
		st.FG = t.Faint
		if t.Background.Light() {
			st.FG = t.Dim
		}
	}
	if s == gvl.Waiting {
		st.Attr |= canvas.Bold
	}
	if waitedToo { // the longer it waited, the louder
		waited := share(c.NS[gvl.Waiting], c.Listed())
		loud := canvas.RGB(0xFFB38A)
		if bg.Light() {
			loud = canvas.RGB(0x8A2B00)
		}
		st.Attr |= canvas.Underline
		st.FG = st.FG.Mix(loud, 0.3+waited*4)
		if waited >= loudWait {
			st.Attr |= canvas.Bold
		}
	}
	return glyph, st
}
