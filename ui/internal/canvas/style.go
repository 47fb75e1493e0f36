package canvas

import (
	"image/color"
	"math"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
)

// Color is a 24-bit colour. The zero value is the terminal's own colour. Color implements color.Color for Lip Gloss.
type Color uint32

const colorSet Color = 1 << 24

// RGB makes a Color from 0xRRGGBB.
func RGB(v uint32) Color { return colorSet | Color(v&0xffffff) }

// IsSet reports whether c is a real colour. The zero value is not: it means the terminal's own colour.
func (c Color) IsSet() bool { return c&colorSet != 0 }

// Components returns the red, green and blue of the colour, each from 0 to 255.
func (c Color) Components() (r, g, b uint8) { return uint8(c >> 16), uint8(c >> 8), uint8(c) }

// IsGrey reports whether the colour is a grey: red, green and blue are the same.
func (c Color) IsGrey() bool {
	r, g, b := c.Components()
	return r == g && g == b
}

// RGBA implements color.Color: it returns the components, 0 to 0xffff. All are 0 for the terminal's own colour.
func (c Color) RGBA() (r, g, b, a uint32) {
	if !c.IsSet() {
		return 0, 0, 0, 0
	}
	red, green, blue := c.Components()
	return color.RGBA{R: red, G: green, B: blue, A: 0xff}.RGBA()
}

// Mix returns a colour between c and other. With a share of 0 it is c, and with 1 it is other.
func (c Color) Mix(other Color, share float64) Color {
	share = min(max(share, 0), 1)
	r1, g1, b1 := c.Components()
	r2, g2, b2 := other.Components()
	at := func(a, b uint8) uint32 { return uint32(float64(a) + (float64(b)-float64(a))*share + 0.5) }
	return RGB(at(r1, r2)<<16 | at(g1, g2)<<8 | at(b1, b2))
}

// Light reports whether black text is easier to read on the colour c than white text. It uses the relative luminance of
// WCAG 2, simplified.
func (c Color) Light() bool {
	r, g, b := c.Components()
	return 299*int(r)+587*int(g)+114*int(b) > 128*1000
}

// Contrast is the contrast ratio of two colours, 1 to 21 (WCAG 2.1, "contrast ratio" and "relative luminance").
func (c Color) Contrast(o Color) float64 {
	x, y := c.luminance(), o.luminance()
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// linear maps the components of an sRGB colour, 0 to 255, to linear light. It is a table, because drawing one picture
// needs thousands of these values.
var linear = func() (v [256]float64) {
	for i := range v {
		if s := float64(i) / 255; s <= 0.04045 {
			v[i] = s / 12.92
		} else {
			v[i] = math.Pow((s+0.055)/1.055, 2.4)
		}
	}
	return v
}()

func (c Color) luminance() float64 {
	r, g, b := c.Components()
	return 0.2126*linear[r] + 0.7152*linear[g] + 0.0722*linear[b]
}

// Hex returns the colour as #rrggbb.
func (c Color) Hex() string {
	const digits = "0123456789abcdef"
	b := [7]byte{'#'}
	for i := range 6 {
		b[1+i] = digits[c>>(20-4*i)&15]
	}
	return string(b[:])
}

// Attr is a set of text attributes.
type Attr uint8

// These are the attributes of text.
const (
	Bold Attr = 1 << iota
	Faint
	Italic
	Underline
	Reverse
)

// Style is the appearance of a cell. It has only the fields of a lipgloss.Style that apply to a single cell. It is
// small and comparable, because a picture has thousands of styled cells.
type Style struct {
	FG, BG Color
	Attr   Attr
}

// With returns the style with attributes added.
func (s Style) With(a Attr) Style { s.Attr |= a; return s }

// Colorless returns the style without colours, so that the terminal's own colours are used. Attributes such as bold
// stay.
func (s Style) Colorless() Style { return Style{Attr: s.Attr} }

// Lipgloss converts the style to a style of the library Lip Gloss, which makes the terminal's escape sequences.
func (s Style) Lipgloss() lipgloss.Style {
	l := lipgloss.NewStyle()
	if s.FG.IsSet() {
		l = l.Foreground(s.FG)
	}
	if s.BG.IsSet() {
		l = l.Background(s.BG)
	}
	if s.Attr&Bold != 0 {
		l = l.Bold(true)
	}
	if s.Attr&Faint != 0 {
		l = l.Faint(true)
	}
	if s.Attr&Italic != 0 {
		l = l.Italic(true)
	}
	if s.Attr&Underline != 0 {
		l = l.Underline(true)
	}
	if s.Attr&Reverse != 0 {
		l = l.Reverse(true)
	}
	return l
}

// plain reports whether a blank cell of this style looks like a cell that was never written. The parameter color is
// false if the terminal shows no colours.
func (s Style) plain(color bool) bool {
	if s.Attr&(Reverse|Underline) != 0 {
		return false
	}
	return !color || !s.BG.IsSet()
}

// maxSequences limits how many escape sequences are cached. A full cache is emptied.
const maxSequences = 1 << 14

// sequences caches the parameters of the escape sequences (SGR) that Lip Gloss writes. Each entry is for a foreground,
// a background or a set of attributes. The cache is needed because Lip Gloss takes a few microseconds to render a
// string, and a picture changes its style a thousand times.
type sequences struct {
	known map[Style]string
	// convert returns the terminal's colour to use in place of a given colour. It returns nil if the terminal can show
	// no colour. The field itself is nil if the terminal shows every colour unchanged.
	convert func(color.Color) color.Color
}

// The method of returns the parameters of the escape sequence (SGR) for one part of a style: a foreground, a background
// or attributes. It returns "" for a colour that the terminal cannot show.
func (q *sequences) of(part Style) string {
	if s, ok := q.known[part]; ok {
		return s
	}
	if q.known == nil || len(q.known) >= maxSequences {
		q.known = make(map[Style]string)
	}
	l := part.Lipgloss()
	if q.convert != nil && part.FG.IsSet() {
		l = l.Foreground(q.convert(part.FG))
	}
	if q.convert != nil && part.BG.IsSet() {
		l = l.Background(q.convert(part.BG))
	}
	s := parameters(l)
	if part.Attr != 0 { // keep each parameter once, because Lip Gloss repeats the parameter of underlined text
		var once []string
		for _, p := range strings.Split(s, ";") {
			if !slices.Contains(once, p) {
				once = append(once, p)
			}
		}
		s = strings.Join(once, ";")
	}
	q.known[part] = s
	return s
}

// parameters returns the parameters of the escape sequence that Lip Gloss writes before text of a style.
func parameters(l lipgloss.Style) string {
	const text = "x"
	opened, _, _ := strings.Cut(l.Render(text), text)
	return strings.TrimSuffix(strings.TrimPrefix(opened, "\x1b["), "m")
}

// appendSGR writes the escape sequence that changes the terminal's style from one to another. It writes only the parts
// that differ. If an attribute, such as bold, must end, the sequence begins with a reset.
func (q *sequences) appendSGR(b []byte, from, to Style) []byte {
	b = append(b, "\x1b["...)
	start := len(b)
	add := func(part Style) {
		s := q.of(part)
		if s != "" && len(b) > start {
			b = append(b, ';')
		}
		b = append(b, s...)
	}
	if from.Attr&^to.Attr != 0 || from.FG.IsSet() && !to.FG.IsSet() || from.BG.IsSet() && !to.BG.IsSet() {
		b = append(b, '0')
		from = Style{}
	}
	if more := to.Attr &^ from.Attr; more != 0 {
		add(Style{Attr: more})
	}
	if to.FG != from.FG {
		add(Style{FG: to.FG})
	}
	if to.BG != from.BG {
		add(Style{BG: to.BG})
	}
	// write nothing: the terminal cannot show these parts, and an empty sequence would reset the style
	if len(b) == start {
		return b[:start-len("\x1b[")]
	}
	return append(b, 'm')
}
