package export

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// ScreenOptions shape a picture of the screen. The zero value means the defaults.
type ScreenOptions struct {
	// Foreground and Background are the terminal's own colours as #rrggbb; "": light on dark.
	Foreground, Background string
	// Title is the picture's accessible title, and stands in the frame's bar unless NoFrame is set.
	Title   string
	NoFrame bool
}

const (
	defaultForeground = "#d8dee9"
	defaultBackground = "#14171c"
	// Size of a cell and of the font in SVG user units. Any monospace font is squeezed or stretched to the cell.
	cellWidth, cellHeight = 8, 17
	fontSize, baseline    = 13.3, 12.8
	framePad, frameBar    = 10, 26
)

// ScreenText returns what a screen of width by height cells shows, as text without colours: one line a row, trailing
// blanks removed.
func ScreenText(screen string, width, height int) string {
	return newGrid(screen, width, height).text()
}

// ScreenSVG writes a picture of a screen of width by height cells, given as text with SGR sequences (16, 256 and
// true colours, bold, faint, italic, underline, reverse, strike). Every run of text is fixed to its cells, so the
// grid is exact in any monospace font, and block elements are drawn as shapes, so that bars have no seams.
func ScreenSVG(w io.Writer, screen string, width, height int, o ScreenOptions) error {
	if o.Foreground == "" {
		o.Foreground = defaultForeground
	}
	if o.Background == "" {
		o.Background = defaultBackground
	}
	if o.Title == "" {
		o.Title = "ddtop"
	}
	g := newGrid(screen, width, height)
	p := painter{out: bufio.NewWriter(w), o: o}
	p.grid(g)
	return p.out.Flush()
}

type painter struct {
	out *bufio.Writer
	o   ScreenOptions
}

func (p *painter) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

func (p *painter) grid(g *grid) {
	pad, top := framePad, framePad
	if !p.o.NoFrame {
		top += frameBar
	}
	w, h := g.width*cellWidth+2*pad, g.height*cellHeight+top+pad
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", w, h, w, h, xmlText(p.o.Title))
	p.printf("<title>%s</title>\n", xmlText(p.o.Title))
	p.printf(`<rect width="%d" height="%d" rx="6" fill="%s"/>`+"\n", w, h, xmlText(p.o.Background))
	if !p.o.NoFrame {
		for i, c := range []string{"#bf616a", "#ebcb8b", "#a3be8c"} {
			p.printf(`<circle cx="%d" cy="18" r="5" fill="%s"/>`+"\n", 18+i*17, c)
		}
		p.printf(`<text x="%d" y="22" text-anchor="middle" font-family="sans-serif" font-size="12" fill="%s" opacity="0.7">%s</text>`+"\n", w/2, xmlText(p.o.Foreground), xmlText(p.o.Title))
	}
	p.printf(`<g transform="translate(%d,%d)" font-family="'DejaVu Sans Mono','JetBrains Mono',Menlo,Consolas,'Liberation Mono',monospace" font-size="%g" fill="%s">`+"\n", pad, top, fontSize, xmlText(p.o.Foreground))
	for y, row := range g.cells {
		p.backgrounds(row, y)
	}
	for y, row := range g.cells {
		p.texts(row, y)
	}
	p.printf("</g>\n</svg>\n")
}

// colors returns the two colours a cell is drawn in, after reverse and conceal.
func (p *painter) colors(s style) (fg, bg string, bgSet bool) {
	f := s.fg
	if s.bold && f.kind == colorIndexed && f.index < 8 {
		f.index += 8 // as most terminals do
	}
	fg, bg, bgSet = colorText(f, p.o.Foreground), colorText(s.bg, p.o.Background), s.bg.kind != colorDefault
	if s.reverse {
		fg, bg, bgSet = bg, fg, true
	}
	if s.conceal {
		fg = bg
	}
	return fg, bg, bgSet
}

func (p *painter) backgrounds(row []screenCell, y int) {
	for x := 0; x < len(row); {
		_, bg, set := p.colors(row[x].style)
		end := x + 1
		for end < len(row) {
			_, b, s := p.colors(row[end].style)
			if b != bg || s != set {
				break
			}
			end++
		}
		if set {
			p.printf(`<rect x="%d" y="%d" width="%d" height="%d" fill="%s" shape-rendering="crispEdges"/>`+"\n", x*cellWidth, y*cellHeight, (end-x)*cellWidth, cellHeight, xmlText(bg))
		}
		x = end
	}
}

// texts draws a row: runs of one style, each as long as its cells; wide graphemes and block elements apart.
func (p *painter) texts(row []screenCell, y int) {
	for x := 0; x < len(row); {
		c := row[x]
		switch {
		case c.width == 0 || (c.text == "" || c.text == " ") && !c.style.decorated():
			x++
			continue
		case p.block(c, x, y):
			x++
			continue
		}
		end, run := p.collect(row, x)
		cells := end - x
		if !c.style.decorated() {
			trimmed := strings.TrimRight(run, " ")
			cells -= len(run) - len(trimmed)
			run = trimmed
		}
		p.run(run, x, y, cells, c.style)
		x = end
	}
}

// decorated reports whether blanks of this style show.
func (s style) decorated() bool { return s.underline || s.strike }

// collect returns the text from cell x on that can be drawn as one run, and the cell after it. What another font might
// supply (arrows, dots, wide characters) stands alone, so that its width stretches nothing else. A second blank
// ends a run, since renderers differ on whether they keep it; where it must be drawn it becomes a no-break space.
func (p *painter) collect(row []screenCell, x int) (end int, run string) {
	c := row[x]
	run = blankText(c)
	end = x + c.width
	if !ordinary(c) {
		return end, run
	}
	for end < len(row) && ordinary(row[end]) && row[end].style == c.style {
		t := blankText(row[end])
		if t == " " && strings.HasSuffix(run, " ") {
			break
		}
		run += t
		end++
	}
	return end, run
}

// blankText returns a cell's text with blanks as they are drawn.
func blankText(c screenCell) string {
	switch {
	case c.text != "" && c.text != " ":
		return c.text
	case c.style.decorated():
		return "\u00a0"
	}
	return " "
}

// ordinary reports whether a cell holds a letter, digit or sign that every monospace font has.
func ordinary(c screenCell) bool {
	if c.width != 1 {
		return false
	}
	for _, r := range c.text {
		if r >= 0x2000 {
			return false
		}
	}
	return true
}

// run draws text over cells cells.
func (p *painter) run(run string, x, y, cells int, s style) {
	fg, _, _ := p.colors(s)
	p.printf(`<text x="%d" y="%g" textLength="%d" lengthAdjust="spacingAndGlyphs"`, x*cellWidth, float64(y*cellHeight)+baseline, cells*cellWidth)
	if fg != p.o.Foreground {
		p.printf(` fill="%s"`, xmlText(fg))
	}
	if s.bold {
		p.printf(` font-weight="bold"`)
	}
	if s.italic {
		p.printf(` font-style="italic"`)
	}
	if s.faint {
		p.printf(` opacity="0.6"`)
	}
	switch {
	case s.underline && s.strike:
		p.printf(` text-decoration="underline line-through"`)
	case s.underline:
		p.printf(` text-decoration="underline"`)
	case s.strike:
		p.printf(` text-decoration="line-through"`)
	}
	p.printf(">%s</text>\n", xmlText(run))
}

// isBlock reports whether a grapheme is a block element that block draws: U+2580 to U+2590 and U+2594, U+2595 without the
// shades.
func isBlock(t string) bool {
	r := []rune(t)
	return len(r) == 1 && (r[0] >= 0x2580 && r[0] <= 0x2590 || r[0] == 0x2594 || r[0] == 0x2595)
}

// block draws a block element as a rectangle and reports whether it did.
func (p *painter) block(c screenCell, x, y int) bool {
	if !isBlock(c.text) {
		return false
	}
	r := []rune(c.text)[0]
	left, top, w, h := 0.0, 0.0, 1.0, 1.0
	switch {
	case r == 0x2580: // upper half
		h = 0.5
	case r >= 0x2581 && r <= 0x2588: // lower eighths, up to the full block
		h = float64(r-0x2580) / 8
		top = 1 - h
	case r >= 0x2589 && r <= 0x258F: // left eighths, from seven to one
		w = float64(0x2590-r) / 8
	case r == 0x2590: // right half
		left, w = 0.5, 0.5
	case r == 0x2594: // upper eighth
		h = 0.125
	case r == 0x2595: // right eighth
		left, w = 0.875, 0.125
	}
	fg, _, _ := p.colors(c.style)
	faint := ""
	if c.style.faint {
		faint = ` opacity="0.6"`
	}
	p.printf(`<rect x="%g" y="%g" width="%g" height="%g" fill="%s"%s shape-rendering="crispEdges"/>`+"\n", (float64(x)+left)*cellWidth, (float64(y)+top)*cellHeight, w*cellWidth, h*cellHeight, xmlText(fg), faint)
	return true
}

// basicColors are the 16 colours of a dark terminal that passes for none in particular.
var basicColors = [16]string{
	"#2e3440", "#bf616a", "#a3be8c", "#d8b365", "#5e81ac", "#b48ead", "#6fb3c0", "#c8ccd4",
	"#5b6472", "#d97782", "#b5d19c", "#ebcb8b", "#81a1c1", "#c9a0c4", "#88c9d6", "#ffffff",
}

// colorText returns a colour as #rrggbb. 16 to 255 are xterm's cube and greys.
func colorText(c color, def string) string {
	switch {
	case c.kind == colorRGB:
		return fmt.Sprintf("#%02x%02x%02x", c.r, c.g, c.b)
	case c.kind == colorDefault:
		return def
	case c.index < 16:
		return basicColors[c.index]
	case c.index >= 232:
		v := 8 + 10*(int(c.index)-232)
		return fmt.Sprintf("#%02x%02x%02x", v, v, v)
	}
	level := func(n int) int {
		if n == 0 {
			return 0
		}
		return 55 + 40*n
	}
	n := int(c.index) - 16
	return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
}

// xmlText escapes text for XML, in content and in attributes, and replaces what XML 1.0 can't hold.
func xmlText(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '"':
			b.WriteString("&quot;")
		case r == '\'':
			b.WriteString("&#39;")
		case r == '\t' || r == '\n' || r == '\r':
			b.WriteByte(' ')
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff:
			b.WriteRune(0xfffd)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
