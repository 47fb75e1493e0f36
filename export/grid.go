package export

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Limits of a picture of the screen: what lies outside is left out.
const (
	maxScreenWidth  = 1000
	maxScreenHeight = 500
)

// color is a colour of a cell.
type color struct {
	kind    colorKind
	r, g, b uint8 // colorRGB
	index   uint8 // colorIndexed, 0 to 255
}

type colorKind uint8

const (
	colorDefault colorKind = iota
	colorIndexed
	colorRGB
)

// style is how a cell is drawn.
type style struct {
	fg, bg                                           color
	bold, faint, italic, underline, reverse, conceal bool
	strike                                           bool
}

// screenCell is one cell: its text (a grapheme), and its width; 0 for the right half of a wide one. "" is a blank.
type screenCell struct {
	text  string
	width int
	style style
}

// grid is a screen of cells.
type grid struct {
	width, height int
	cells         [][]screenCell
}

// newGrid lays text with SGR sequences out in width by height cells, as a terminal would that doesn't wrap: text outside
// is cut. All other escape sequences are ignored, tabs go to the next multiple of eight.
func newGrid(text string, width, height int) *grid {
	g := &grid{width: min(max(width, 0), maxScreenWidth), height: min(max(height, 0), maxScreenHeight)}
	g.cells = make([][]screenCell, g.height)
	for y := range g.cells {
		g.cells[y] = make([]screenCell, g.width)
		for x := range g.cells[y] {
			g.cells[y][x].width = 1
		}
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	var now style
	var state byte
	x, y := 0, 0
	for len(text) > 0 && y < g.height {
		seq, w, n, next := ansi.DecodeSequence(text, state, nil)
		if n <= 0 {
			break
		}
		text, state = text[n:], next
		switch {
		case seq == "\n":
			x, y = 0, y+1
		case seq == "\r":
			x = 0
		case seq == "\t":
			x = (x/8 + 1) * 8
		case w > 0:
			if x+w <= g.width {
				g.put(x, y, seq, w, now)
			}
			x += w
		case strings.HasPrefix(seq, "\x1b[") && strings.HasSuffix(seq, "m"):
			now.sgr(seq[2 : len(seq)-1])
		}
	}
	return g
}

func (g *grid) put(x, y int, text string, w int, s style) {
	row := g.cells[y]
	row[x] = screenCell{text: text, width: w, style: s}
	for i := x + 1; i < x+w; i++ {
		row[i] = screenCell{style: s}
	}
}

// text returns the screen as lines of text without colours, trailing blanks removed.
func (g *grid) text() string {
	var b strings.Builder
	for _, row := range g.cells {
		var line strings.Builder
		for _, c := range row {
			switch {
			case c.width == 0:
			case c.text == "":
				line.WriteByte(' ')
			default:
				line.WriteString(c.text)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// sgr applies the parameters of a Select Graphic Rendition sequence (ECMA-48, and the colours of ISO 8613-6 in both the
// semicolon and the colon form). What it doesn't know it ignores.
func (s *style) sgr(params string) {
	if strings.Trim(params, "0123456789;:") != "" {
		return // a private sequence
	}
	list := strings.Split(params, ";")
	for i := 0; i < len(list); i++ {
		sub := strings.Split(list[i], ":")
		switch n := number(sub[0]); {
		case n == 0:
			*s = style{}
		case n == 1:
			s.bold = true
		case n == 2:
			s.faint = true
		case n == 3:
			s.italic = true
		case n == 4:
			s.underline = len(sub) < 2 || number(sub[1]) != 0
		case n == 7:
			s.reverse = true
		case n == 8:
			s.conceal = true
		case n == 9:
			s.strike = true
		case n == 22:
			s.bold, s.faint = false, false
		case n == 23:
			s.italic = false
		case n == 24:
			s.underline = false
		case n == 27:
			s.reverse = false
		case n == 28:
			s.conceal = false
		case n == 29:
			s.strike = false
		case n >= 30 && n <= 37:
			s.fg = color{kind: colorIndexed, index: uint8(n - 30)}
		case n >= 90 && n <= 97:
			s.fg = color{kind: colorIndexed, index: uint8(n - 90 + 8)}
		case n == 39:
			s.fg = color{}
		case n >= 40 && n <= 47:
			s.bg = color{kind: colorIndexed, index: uint8(n - 40)}
		case n >= 100 && n <= 107:
			s.bg = color{kind: colorIndexed, index: uint8(n - 100 + 8)}
		case n == 49:
			s.bg = color{}
		case n == 38 || n == 48 || n == 58:
			c, used := extended(sub, list[i+1:])
			i += used
			switch n {
			case 38:
				s.fg = c
			case 48:
				s.bg = c
			}
		}
	}
}

// extended reads 5;N or 2;R;G;B, either from the colon-separated rest of the parameter or from the next ones.
func extended(sub, next []string) (c color, used int) {
	if len(sub) > 1 {
		switch args := sub[1:]; {
		case args[0] == "5" && len(args) >= 2:
			return color{kind: colorIndexed, index: uint8(number(args[1]))}, 0
		case args[0] == "2" && len(args) >= 5: // with a colour space
			return rgb(args[2], args[3], args[4]), 0
		case args[0] == "2" && len(args) == 4:
			return rgb(args[1], args[2], args[3]), 0
		}
		return color{}, 0
	}
	switch {
	case len(next) >= 2 && next[0] == "5":
		return color{kind: colorIndexed, index: uint8(number(next[1]))}, 2
	case len(next) >= 4 && next[0] == "2":
		return rgb(next[1], next[2], next[3]), 4
	}
	return color{}, len(next)
}

func rgb(r, g, b string) color {
	return color{kind: colorRGB, r: uint8(number(r)), g: uint8(number(g)), b: uint8(number(b))}
}

// number reads a parameter; 0 for an empty one, as ECMA-48 says, and at most 255.
func number(s string) int {
	n := 0
	for i := 0; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		n = min(n*10+int(s[i]-'0'), 255)
	}
	return n
}
