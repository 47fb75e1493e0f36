package canvas

import (
	"fmt"
	"image/color"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// emulator imitates a terminal that understands only what Terminal writes. It erases cells to the terminal's own style,
// without the text's background. If the cursor goes beyond the last column, the emulator regards its position as
// unknown, because terminals differ there.
type emulator struct {
	t     *testing.T
	cells [][]Cell
	x, y  int
	pen   Style
	last  *Cell // the cell that was written last
}

// junk is the content of a terminal cell before Terminal writes to it.
var junk = Cell{Rune: '?', Style: Style{FG: RGB(1), BG: RGB(2), Attr: Bold}}

func (e *emulator) resize(w, h int) {
	e.cells = make([][]Cell, h)
	for y := range e.cells {
		for range w {
			e.cells[y] = append(e.cells[y], junk)
		}
	}
}

var sequence = regexp.MustCompile(`^\x1b\[([\d;]*)([A-Za-z])`)

func (e *emulator) write(s string) {
	e.t.Helper()
	e.x, e.y = 0, -1
	for s != "" {
		if m := sequence.FindStringSubmatch(s); m != nil {
			e.sequence(m[1], m[2])
			s = s[len(m[0]):]
			continue
		}
		if strings.HasPrefix(s, "\r\n") {
			if e.y < 0 || e.y+1 >= len(e.cells) {
				e.t.Fatal("a new line where it is not known")
			}
			e.x, e.y, s = 0, e.y+1, s[2:]
			continue
		}
		r := []rune(s)[0]
		s = s[len(string(r)):]
		e.put(r)
	}
	if e.pen != (Style{}) {
		e.t.Errorf("the terminal is left in the style %v", e.pen)
	}
}

func (e *emulator) put(r rune) {
	w := RuneWidth(r)
	if e.y < 0 && w > 0 || r < ' ' {
		e.t.Fatalf("%q at row %d, column %d", r, e.y, e.x)
	}
	switch w {
	case 0:
		e.last.Marks += string(r)
	default:
		row := e.cells[e.y]
		e.last = &row[e.x]
		for i := range w { // the other half of an overwritten wide character becomes blank
			if row[e.x+i].Rune == 0 && e.x+i > 0 {
				row[e.x+i-1].Rune = ' '
			}
			if e.x+i+1 < len(row) && row[e.x+i+1].Rune == 0 {
				row[e.x+i+1].Rune = ' '
			}
			row[e.x+i] = Cell{Rune: r, Style: e.pen}
			r = 0
		}
		if e.x += w; e.x == len(row) {
			e.y = -1
		}
	}
}

func (e *emulator) sequence(params, final string) {
	var n []int
	for _, p := range strings.Split(params, ";") {
		v, _ := strconv.Atoi(p)
		n = append(n, v)
	}
	switch final {
	case "H":
		e.y, e.x = max(n[0], 1)-1, 0
		if len(n) > 1 {
			e.x = n[1] - 1
		}
	case "C":
		e.x += max(n[0], 1)
	case "K":
		if e.pen.BG.IsSet() || e.y < 0 {
			e.t.Fatal("erased in a colour")
		}
		for x := e.x; x < len(e.cells[e.y]); x++ {
			e.cells[e.y][x] = Cell{Rune: ' '}
		}
	case "m":
		for i := 0; i < len(n); i++ {
			switch v := n[i]; v {
			case 0:
				e.pen = Style{}
			case 1:
				e.pen.Attr |= Bold
			case 4:
				e.pen.Attr |= Underline
			case 7:
				e.pen.Attr |= Reverse
			case 38, 48:
				c := RGB(uint32(n[i+2]<<16 | n[i+3]<<8 | n[i+4]))
				if i += 4; v == 38 {
					e.pen.FG = c
				} else {
					e.pen.BG = c
				}
			default:
				e.t.Fatalf("style %s", params)
			}
		}
	default:
		e.t.Fatalf("unknown: CSI %s %s", params, final)
	}
}

// TestTerminalShowsTheGrid: after any series of changes the terminal must show the same cells as the grid. Cells that
// did not change are not written.
func TestTerminalShowsTheGrid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	styles := []Style{{}, {}, {FG: RGB(0x112233)}, {BG: RGB(0x445566)}, {FG: RGB(0x778899), BG: RGB(0x445566)}, {Attr: Bold},
		{FG: RGB(0x112233), Attr: Underline}, {BG: RGB(0x445566), Attr: Reverse}}
	words := []string{"a", "bcd", "   ", "█", "日本", "e\u0301x", "", "          "}
	for range 200 {
		e := emulator{t: t}
		var g Grid
		var term Terminal
		for n := range 30 {
			if n == 0 || r.IntN(10) == 0 {
				w, h := 1+r.IntN(30), 1+r.IntN(6)
				if w != g.W || h != g.H {
					e.resize(w, h)
				}
				g.Reset(w, h)
			}
			if r.IntN(10) == 0 { // another program has written to the terminal
				e.resize(g.W, g.H)
				term.Forget()
			}
			for range r.IntN(8) {
				a, st := g.Area(), styles[r.IntN(len(styles))]
				x, y := r.IntN(g.W), r.IntN(g.H)
				switch r.IntN(5) {
				case 0:
					a.Sub(x, y, r.IntN(10), 1).Restyle(func(Style) Style { return st })
				case 1:
					a.Sub(x, y, g.W, 1).Fill(' ', st)
				default:
					a.Put(x, y, words[r.IntN(len(words))], st)
				}
			}
			e.write(string(term.Update(&g)))
			for y := range g.H {
				for x := range g.W {
					want, got := g.At(x, y), e.cells[y][x]
					if want.Rune == 0 {
						// do not compare the style here: only the first half of a wide character has it
						want.Style, got.Style = Style{}, Style{}
					}
					if want.shows() != got.shows() {
						t.Fatalf("row %d, column %d shows %v, want %v", y, x, got, want)
					}
				}
			}
			if again := term.Update(&g); len(again) > 0 {
				t.Fatalf("written again: %q", again)
			}
		}
	}
}

// TestTerminalOfFewColors: if the terminal cannot show a colour, Terminal must write neither the colour nor a reset
// after it.
func TestTerminalOfFewColors(t *testing.T) {
	var g Grid
	var term Terminal
	g.Reset(8, 1)
	g.Area().Put(0, 0, "ab", Style{Attr: Bold})
	g.Area().Put(2, 0, "cd", Style{FG: RGB(0xff0000), Attr: Bold})
	g.Area().Put(4, 0, "ef", Style{FG: RGB(0x00ff00), Attr: Bold})
	term.SetColors(func(c color.Color) color.Color {
		if r, _, _, _ := c.RGBA(); r > 0 {
			return nil
		}
		return c
	})
	if got, want := string(term.Update(&g)), "\x1b[H\x1b[1mabcd\x1b[38;2;0;255;0mef  \x1b[m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	g.Area().Put(7, 0, "x", Style{})
	if got, want := string(term.Update(&g)), "\x1b[1;8Hx"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// BenchmarkTerminal measures an update of a terminal of 200x50. A tenth of the rows differ from the previous picture.
func BenchmarkTerminal(b *testing.B) {
	var g Grid
	var term Terminal
	g.Reset(200, 50)
	for y := range 50 {
		g.Area().Put(0, y, fmt.Sprint("row ", y, strings.Repeat(" word", 30)), Style{FG: RGB(uint32(y))})
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		for y := 0; y < 50; y += 5 {
			g.Area().Put(0, y, strings.Repeat(strconv.Itoa(n%10), 200), Style{FG: RGB(uint32(y))})
		}
		_ = term.Update(&g)
	}
}
