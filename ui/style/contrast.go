package style

import (
	"image/color"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// Legible is the contrast that text has at least: WCAG 2.1's 1.4.3.
const Legible = 4.5

// Graphic is the least contrast of signs that are not text, such as the letters of the timeline (WCAG 2.1, 1.4.11).
const Graphic = 3

// Toward mixes a colour with another until it is legible on a background. If it never is, the result is other.
func Toward(c, other, bg canvas.Color) canvas.Color { return MixUntil(c, other, bg, Legible) }

// MixUntil mixes a colour with another until it has a contrast with a background. If it never has, the result
// is other.
func MixUntil(c, other, bg canvas.Color, contrast float64) canvas.Color {
	const steps = 10
	for i := range steps {
		if m := c.Mix(other, float64(i)/steps); m.Contrast(bg) >= contrast {
			return m
		}
	}
	return other
}

// Readable returns a state's colour with enough contrast for text on the theme's background. The dark greys of the
// idle states and the blue of io are too close to a dark background, and yellow to a light one.
func (t *Theme) Readable(c canvas.Color) canvas.Color {
	end := canvas.RGB(WhiteText)
	if t.Background.Light() {
		end = canvas.RGB(BlackText)
	}
	return Toward(c, end, t.Background)
}

// fewColors keeps text apart from its ground on a terminal of 16 or 256 colours, whose nearest two can be one.
type fewColors struct {
	// Convert gives the terminal's colour that comes nearest.
	Convert func(color.Color) color.Color
	Are16   bool
	known   map[canvas.Style]canvas.Style
}

// How Bubble Tea calls a terminal of 16 colours, and one that shows every colour as it is.
const (
	Colors16  = "ANSI"
	TrueColor = "TrueColor"
)

// maxKnownStyles bounds the styles that are remembered.
const maxKnownStyles = 1 << 14

// apply corrects the styles of a picture.
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

// The 256 colours of xterm: a cube of six steps for each component and a ramp of greys. A colour that is less
// saturated than colourless counts as a grey.
const (
	rampFirst, rampStep, rampLast = 8, 10, 238
	colourless                    = 0x30
)

var cubeSteps = [...]int{0, 0x5f, 0x87, 0xaf, 0xd7, 0xff}

// In256 returns the nearest of the 256 colours. For greys it takes a grey. The nearest by hue would be teal for a
// bluish grey, and teal has a meaning here.
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

// correct replaces colours by the terminal's own. If text and its background get the same colour, the text becomes
// black or white, whichever has more contrast. A cell that is meant to have one colour stays unchanged.
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
	case s.FG == t.Text && !s.BG.IsSet() && t.Background.Light(): // the terminal's own plain text: a bold black would come out grey
		s.FG = 0
		return s
	default:
		if grey := In256(s.FG); grey.IsGrey() {
			s.FG = grey // of a bluish one blue comes nearest
		}
	}
	ground := s.BG
	if !ground.IsSet() {
		ground = t.Background
	}
	at := f.Convert(ground)
	if at == nil || f.Convert(s.FG) != at { // nil without colours
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
