package style

import (
	"image/color"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// Legible is the least contrast that text must have with its background (WCAG 2.1, 1.4.3).
const Legible = 4.5

// Graphic is the least contrast for signs that are not text, such as the letters of the timeline (WCAG 2.1, 1.4.11).
const Graphic = 3

// Toward mixes c with the colour other, with an increasing share of other, until text in the mixture is legible on bg.
// If no mixture is legible, it returns other.
func Toward(c, other, bg canvas.Color) canvas.Color { return MixUntil(c, other, bg, Legible) }

// MixUntil mixes c with the colour other, with an increasing share of other, until the mixture has at least this
// contrast with bg. If no mixture has this contrast, it returns other.
func MixUntil(c, other, bg canvas.Color, contrast float64) canvas.Color {
	const steps = 10
	for i := range steps {
		if m := c.Mix(other, float64(i)/steps); m.Contrast(bg) >= contrast {
			return m
		}
	}
	return other
}

// Readable changes the colour of a state so that text in it is legible on the theme's background. Some colours are too
// similar to the background. On a dark background, these are the dark greys of the idle states and the blue of io. On a
// light background, yellow is too similar.
func (t *Theme) Readable(c canvas.Color) canvas.Color {
	end := canvas.RGB(WhiteText)
	if t.Background.Light() {
		end = canvas.RGB(BlackText)
	}
	return Toward(c, end, t.Background)
}

// fewColors corrects the colours of a picture for a terminal with 16 or 256 colours. Without this, text and its
// background could get the same colour there.
type fewColors struct {
	// Convert returns the colour of the terminal that is nearest to a colour. It is nil if the terminal shows all
	// colours.
	Convert func(color.Color) color.Color
	Are16   bool
	known   map[canvas.Style]canvas.Style
}

// These are Bubble Tea's names for a terminal with 16 colours, and for a terminal that shows every colour exactly.
const (
	Colors16  = "ANSI"
	TrueColor = "TrueColor"
)

// maxKnownStyles limits how many corrected styles are kept in the cache.
const maxKnownStyles = 1 << 14

// apply corrects the styles in a picture for the terminal, after the picture was drawn.
func (f *fewColors) apply(a canvas.Area, t *Theme) {
	if f.Convert == nil {
		return
	}
	a.Restyle(func(s canvas.Style) canvas.Style {
		if corrected, ok := f.known[s]; ok {
			return corrected
		}
		if f.known == nil || len(f.known) >= maxKnownStyles {
			f.known = make(map[canvas.Style]canvas.Style)
		}
		corrected := f.correct(s, t)
		f.known[s] = corrected
		return corrected
	})
}

// The 256 colours of xterm are a cube with six steps for each component, and a row of greys (the ramp). rampFirst,
// rampStep and rampLast describe the ramp. If the components of a colour differ by less than the constant colourless,
// ddtop treats the colour as a grey.
const (
	rampFirst, rampStep, rampLast = 8, 10, 238
	colourless                    = 0x30
)

var cubeSteps = [...]int{0, 0x5f, 0x87, 0xaf, 0xd7, 0xff}

// In256 returns the nearest of xterm's 256 colours. For a grey it returns one of the terminal's greys, even if a colour
// of the cube is nearer. Otherwise a bluish grey would become teal, and teal has a meaning on this screen.
func In256(c canvas.Color) canvas.Color {
	if !c.IsSet() {
		return c
	}
	r8, g8, b8 := c.Components()
	r, g, b := int(r8), int(g8), int(b8)
	if max(r, g, b)-min(r, g, b) < colourless {
		grey := (2126*r + 7152*g + 722*b) / 10000
		switch {
		case grey < rampFirst/2:
			return canvas.RGB(BlackText)
		case grey > (rampLast+0xff)/2:
			return canvas.RGB(WhiteText)
		}
		v := min(max((grey-rampFirst+rampStep/2)/rampStep, 0)*rampStep+rampFirst, rampLast)
		return canvas.RGB(uint32(v<<16 | v<<8 | v))
	}
	nearest := func(v int) uint32 {
		best := cubeSteps[0]
		for _, s := range cubeSteps {
			if (s-v)*(s-v) < (best-v)*(best-v) {
				best = s
			}
		}
		return uint32(best)
	}
	return canvas.RGB(nearest(r)<<16 | nearest(g)<<8 | nearest(b))
}

// correct replaces the colours of a style by colours of the terminal. If text and its background get the same colour by
// this, the text becomes black or white, whichever has more contrast. If they had the same colour before, correct does
// not change this, because it is on purpose.
func (f *fewColors) correct(s canvas.Style, t *Theme) canvas.Style {
	if s.FG == s.BG || !s.FG.IsSet() {
		if !f.Are16 {
			s.FG, s.BG = In256(s.FG), In256(s.BG)
		}
		return s
	}
	switch {
	case !f.Are16:
		s.FG, s.BG = In256(s.FG), In256(s.BG)
	// use the terminal's own colour: black text that is bold would become grey
	case s.FG == t.Text && !s.BG.IsSet() && t.Background.Light():
		s.FG = 0
		return s
	default:
		if grey := In256(s.FG); grey.IsGrey() {
			s.FG = grey // for a bluish grey, the nearest colour would be blue
		}
	}
	ground := s.BG
	if !ground.IsSet() {
		ground = t.Background
	}
	at := f.Convert(ground)
	if at == nil || f.Convert(s.FG) != at { // at is nil if the terminal has no colours
		return s
	}
	r, g, b, _ := at.RGBA()
	shown := canvas.RGB(r>>8<<16 | g>>8<<8 | b>>8)
	s.FG = canvas.RGB(WhiteText)
	if black := canvas.RGB(BlackText); black.Contrast(shown) > s.FG.Contrast(shown) {
		s.FG = black
	}
	return s
}
