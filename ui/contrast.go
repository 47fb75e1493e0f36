package ui

import (
	"image/color"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// legible is the contrast that text has at least: WCAG 2.1's 1.4.3.
const legible = 4.5

// toward mixes a colour with another until it is legible on a background, or as far as it goes.
func toward(c, other, bg canvas.Color) canvas.Color {
	const steps = 10
	for i := range steps {
		if m := c.Mix(other, float64(i)/steps); m.Contrast(bg) >= legible {
			return m
		}
	}
	return other
}

// readable returns a state's colour as text on the theme's background: the dark greys of the idle states and the blue of
// io are too close to a dark one, yellow to a light one.
func (t *Theme) readable(c canvas.Color) canvas.Color {
	end := canvas.RGB(whiteText)
	if t.Background.Light() {
		end = canvas.RGB(blackText)
	}
	return toward(c, end, t.Background)
}

// fewColors keeps text apart from its ground on a terminal of 16 or 256 colours, whose nearest two can be one.
type fewColors struct {
	// convert gives the terminal's colour that comes nearest.
	convert func(color.Color) color.Color
	are16   bool
	known   map[canvas.Style]canvas.Style
}

// How Bubble Tea calls a terminal of 16 colours, and one that shows every colour as it is.
const (
	colors16  = "ANSI"
	trueColor = "TrueColor"
)

// setProfile takes over how many colours the terminal has.
func (m *Model) setProfile(p tea.ColorProfileMsg) {
	m.few = fewColors{}
	if p.String() != trueColor {
		m.few.convert = p.Convert
	}
	m.few.are16 = p.String() == colors16
	m.setTheme(m.theme)
}

// setTheme changes the colours of the screen.
func (m *Model) setTheme(t Theme) {
	if m.few.are16 {
		t = t.in16()
	}
	m.theme, m.few.known = t, nil
	m.refresh()
}

// maxKnownStyles bounds the styles that are remembered.
const maxKnownStyles = 1 << 14

// apply mends the styles of a picture.
func (f *fewColors) apply(a canvas.Area, t *Theme) {
	if f.convert == nil {
		return
	}
	a.Restyle(func(s canvas.Style) canvas.Style {
		if mended, ok := f.known[s]; ok {
			return mended
		}
		if f.known == nil || len(f.known) >= maxKnownStyles {
			f.known = make(map[canvas.Style]canvas.Style)
		}
		mended := f.mend(s, t)
		f.known[s] = mended
		return mended
	})
}

// mend gives text whose ground comes out in the same colour black or white, whichever is further from it. A cell that is
// one colour on purpose stays.
func (f *fewColors) mend(s canvas.Style, t *Theme) canvas.Style {
	if !s.FG.IsSet() || s.FG == s.BG {
		return s
	}
	ground := s.BG
	if !ground.IsSet() {
		ground = t.Background
	}
	at := f.convert(ground)
	if at == nil || f.convert(s.FG) != at { // nil: without colours
		return s
	}
	r, g, b, _ := at.RGBA()
	shown := canvas.RGB(r>>8<<16 | g>>8<<8 | b>>8)
	s.FG = canvas.RGB(whiteText)
	if black := canvas.RGB(blackText); black.Contrast(shown) > s.FG.Contrast(shown) {
		s.FG = black
	}
	return s
}
