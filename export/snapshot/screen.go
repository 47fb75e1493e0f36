package snapshot

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
)

// These are limits of a picture of the screen, in cells. The picture leaves out cells beyond them.
const (
	maxScreenWidth  = 1000
	maxScreenHeight = 500
)

// Screen is the content of a screen.
type Screen struct {
	// Rows are the rows of the screen with their cells. Each row has Width cells.
	Rows  [][]ScreenCell
	Width int
	// Text is the screen without colours: one line for each row, without trailing blanks.
	Text string
}

// ScreenCell is one cell.
type ScreenCell struct {
	// Text is the character in the cell (a grapheme). "" and " " are a blank.
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
	// Title is the picture's title for accessibility. It is also shown in the bar at the top of the frame.
	Title string
}

const (
	defaultForeground = "#d8dee9"
	defaultBackground = "#14171c"
	// These are the sizes of a cell and of the font, in SVG user units. In any monospace font, the text is stretched or
	// compressed to the width of its cells.
	cellWidth, cellHeight = 8, 17
	fontSize, baseline    = 13.3, 12.8
	framePad, frameBar    = 10, 26
)

// ScreenSVG writes a picture of a screen. Each piece of text has a fixed width, so the grid of cells is exact in any
// monospace font. Block elements are drawn as shapes, so that bars have no gaps between their cells.
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

// colors returns the colours of a cell's text and background. If the style is Reverse, the two are swapped.
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

// texts draws the text of a row. It joins adjacent cells of the same style, and fits their text to the width of these
// cells. Wide graphemes and block elements are drawn one by one.
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

// collect returns the text from cell x on that can be drawn together, and the index of the next cell. Arrows, dots and
// wide characters are drawn alone. The main font may lack them, and their width in another font must not move other
// text. The text ends before the second of two adjacent blanks, because some renderers drop it. An underlined blank
// becomes a no-break space instead.
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

// blankText returns a cell's text. If the cell is an underlined blank, it returns a no-break space, because renderers
// keep it.
func blankText(c ScreenCell) string {
	switch {
	case c.Text != "" && c.Text != " ":
		return c.Text
	case c.Style.Underline:
		return "\u00a0"
	}
	return " "
}

// ordinary reports whether every monospace font has the character in a cell: a letter, a digit or an ordinary sign.
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

// run draws the text run at x, y, so that it is exactly as wide as the given number of cells.
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

// block draws a block element as a rectangle. It returns false and draws nothing if the cell has another character.
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
