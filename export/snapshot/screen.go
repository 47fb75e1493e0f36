package snapshot

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
)

// Limits of a picture of the screen, in cells. Cells outside are left out.
const (
	maxScreenWidth  = 1000
	maxScreenHeight = 500
)

// Screen is the content of a screen.
type Screen struct {
	// Rows are the cells of each row. A row has as many cells as Width says.
	Rows  [][]ScreenCell
	Width int
	// Text is the screen without colours: one line for each row, without trailing blanks.
	Text string
}

// ScreenCell is one cell.
type ScreenCell struct {
	// Text is the grapheme of the cell. "" and " " are a blank.
	Text string
	// Width is the number of cells that Text covers. It is zero for the right half of a wide character.
	Width int
	Style ScreenStyle
}

// ScreenStyle is the style of a cell.
type ScreenStyle struct {
	// FG and BG are colours as #rrggbb. "" is the terminal's own colour.
	FG, BG                                  string
	Bold, Faint, Italic, Underline, Reverse bool
}

// ScreenOptions shape a picture of the screen. The zero value means the defaults.
type ScreenOptions struct {
	// Foreground and Background are the terminal's own colours as #rrggbb. If they are empty, text is light on dark.
	Foreground, Background string
	// Title is the picture's accessible title, and is in the frame's bar.
	Title string
}

const (
	defaultForeground = "#d8dee9"
	defaultBackground = "#14171c"
	// Size of a cell and of the font in SVG user units. Any monospace font is squeezed or stretched to the cell.
	cellWidth, cellHeight = 8, 17
	fontSize, baseline    = 13.3, 12.8
	framePad, frameBar    = 10, 26
)

// ScreenSVG writes a picture of a screen. Every run of text is fixed to its cells, so the grid is exact in any
// monospace font. Block elements are drawn as shapes, so that bars have no seams.
func ScreenSVG(w io.Writer, screen Screen, o ScreenOptions) error {
	if o.Foreground == "" {
		o.Foreground = defaultForeground
	}
	if o.Background == "" {
		o.Background = defaultBackground
	}
	if o.Title == "" {
		o.Title = "ddtop"
	}
	p := painter{out: bufio.NewWriter(w), o: o}
	p.screen(screen.Rows[:min(len(screen.Rows), maxScreenHeight)], min(screen.Width, maxScreenWidth))
	return p.out.Flush()
}

type painter struct {
	out *bufio.Writer
	o   ScreenOptions
}

func (p *painter) printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

func (p *painter) screen(rows [][]ScreenCell, width int) {
	pad, top := framePad, framePad+frameBar
	w, h := width*cellWidth+2*pad, len(rows)*cellHeight+top+pad
	p.printf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">`+"\n", w, h, w, h, xmlText(p.o.Title))
	p.printf("<title>%s</title>\n", xmlText(p.o.Title))
	p.printf(`<rect width="%d" height="%d" rx="6" fill="%s"/>`+"\n", w, h, xmlText(p.o.Background))
	for i, c := range []string{"#bf616a", "#ebcb8b", "#a3be8c"} {
		p.printf(`<circle cx="%d" cy="18" r="5" fill="%s"/>`+"\n", 18+i*17, c)
	}
	p.printf(`<text x="%d" y="22" text-anchor="middle" font-family="sans-serif" font-size="12" fill="%s" opacity="0.7">%s</text>`+"\n", w/2, xmlText(p.o.Foreground), xmlText(p.o.Title))
	p.printf(`<g transform="translate(%d,%d)" font-family="'DejaVu Sans Mono','JetBrains Mono',Menlo,Consolas,'Liberation Mono',monospace" font-size="%g" fill="%s">`+"\n", pad, top, fontSize, xmlText(p.o.Foreground))
	for y, row := range rows {
		p.backgrounds(row[:min(len(row), width)], y)
	}
	for y, row := range rows {
		p.texts(row[:min(len(row), width)], y)
	}
	p.printf("</g>\n</svg>\n")
}

// colors returns the colours of a cell's text and background. Reverse swaps them.
func (p *painter) colors(s ScreenStyle) (fg, bg string, bgSet bool) {
	fg, bg, bgSet = cmp.Or(s.FG, p.o.Foreground), cmp.Or(s.BG, p.o.Background), s.BG != ""
	if s.Reverse {
		return bg, fg, true
	}
	return fg, bg, bgSet
}

func (p *painter) backgrounds(row []ScreenCell, y int) {
	for x := 0; x < len(row); {
		_, bg, set := p.colors(row[x].Style)
		end := x + 1
		for end < len(row) {
			_, b, s := p.colors(row[end].Style)
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

// texts draws a row as runs of one style, each with the width of its cells. Wide graphemes and block elements are
// drawn singly.
func (p *painter) texts(row []ScreenCell, y int) {
	for x := 0; x < len(row); {
		c := row[x]
		switch {
		case c.Width == 0 || (c.Text == "" || c.Text == " ") && !c.Style.Underline:
			x++
			continue
		case p.block(c, x, y):
			x++
			continue
		}
		end, run := p.collect(row, x)
		cells := end - x
		if !c.Style.Underline {
			trimmed := strings.TrimRight(run, " ")
			cells -= len(run) - len(trimmed)
			run = trimmed
		}
		p.run(run, x, y, cells, c.Style)
		x = end
	}
}

// collect returns the text from cell x on that can be drawn as one run, and the cell after it. Arrows, dots and wide
// characters are drawn alone. The main font may lack them, and their width in another font must not move other text. A
// second blank ends a run, because some renderers drop it. An underlined blank becomes a no-break space instead.
func (p *painter) collect(row []ScreenCell, x int) (end int, run string) {
	c := row[x]
	run = blankText(c)
	end = x + c.Width
	if !ordinary(c) {
		return end, run
	}
	for end < len(row) && ordinary(row[end]) && row[end].Style == c.Style {
		t := blankText(row[end])
		if t == " " && strings.HasSuffix(run, " ") {
			break
		}
		run += t
		end++
	}
	return end, run
}

// blankText returns a cell's text. An underlined blank becomes a no-break space, so that renderers keep it.
func blankText(c ScreenCell) string {
	switch {
	case c.Text != "" && c.Text != " ":
		return c.Text
	case c.Style.Underline:
		return "\u00a0"
	}
	return " "
}

// ordinary reports whether a cell holds a letter, digit or sign that every monospace font has.
func ordinary(c ScreenCell) bool {
	if c.Width != 1 {
		return false
	}
	for _, r := range c.Text {
		if r >= 0x2000 {
			return false
		}
	}
	return true
}

// run draws text with the width of the given number of cells.
func (p *painter) run(run string, x, y, cells int, s ScreenStyle) {
	fg, _, _ := p.colors(s)
	p.printf(`<text x="%d" y="%g" textLength="%d" lengthAdjust="spacingAndGlyphs"`, x*cellWidth, float64(y*cellHeight)+baseline, cells*cellWidth)
	if fg != p.o.Foreground {
		p.printf(` fill="%s"`, xmlText(fg))
	}
	if s.Bold {
		p.printf(` font-weight="bold"`)
	}
	if s.Italic {
		p.printf(` font-style="italic"`)
	}
	if s.Faint {
		p.printf(` opacity="0.6"`)
	}
	if s.Underline {
		p.printf(` text-decoration="underline"`)
	}
	p.printf(">%s</text>\n", xmlText(run))
}

// isBlock reports whether a grapheme is a block element that the function block draws: U+2580 to U+2590 without the
// shades, and U+2594, U+2595.
func isBlock(t string) bool {
	r := []rune(t)
	return len(r) == 1 && (r[0] >= 0x2580 && r[0] <= 0x2590 || r[0] == 0x2594 || r[0] == 0x2595)
}

// block draws a block element as a rectangle and reports whether it did.
func (p *painter) block(c ScreenCell, x, y int) bool {
	if !isBlock(c.Text) {
		return false
	}
	r := []rune(c.Text)[0]
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
	fg, _, _ := p.colors(c.Style)
	faint := ""
	if c.Style.Faint {
		faint = ` opacity="0.6"`
	}
	p.printf(`<rect x="%g" y="%g" width="%g" height="%g" fill="%s"%s shape-rendering="crispEdges"/>`+"\n", (float64(x)+left)*cellWidth, (float64(y)+top)*cellHeight, w*cellWidth, h*cellHeight, xmlText(fg), faint)
	return true
}

var xmlEscaper = strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;", `"`, "&quot;", "'", "&#39;")

// xmlText escapes text for XML, in content and in attributes, and replaces characters that XML 1.0 cannot contain.
func xmlText(s string) string {
	return xmlEscaper.Replace(strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xfffe || r == 0xffff:
			return 0xfffd
		}
		return r
	}, s))
}
