package snapshot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/internal/golden"
)

// screenOf draws lines into a screen of width by height cells. A mark such as {bold #ff0000 on #000000} sets the
// style of the text behind it.
func screenOf(width, height int, lines ...string) Screen {
	s := Screen{Rows: make([][]ScreenCell, height), Width: width, Text: strings.Join(lines, "\n")}
	for y := range s.Rows {
		s.Rows[y] = make([]ScreenCell, width)
		for x := range s.Rows[y] {
			s.Rows[y][x].Width = 1
		}
		line := ""
		if y < len(lines) {
			line = lines[y]
		}
		x, now := 0, ScreenStyle{}
		for _, part := range strings.Split(line, "{") {
			if marks, rest, ok := strings.Cut(part, "}"); ok {
				part, now = rest, styleOf(marks)
			}
			x = put(s.Rows[y], x, part, now)
		}
	}
	return s
}

func styleOf(marks string) (s ScreenStyle) {
	for i, w := range strings.Fields(marks) {
		switch {
		case w[0] == '#' && i > 0 && strings.Contains(marks, "on "+w):
			s.BG = w
		case w[0] == '#':
			s.FG = w
		}
		s.Bold, s.Faint, s.Italic = s.Bold || w == "bold", s.Faint || w == "faint", s.Italic || w == "italic"
		s.Underline, s.Reverse = s.Underline || w == "underline", s.Reverse || w == "reverse"
	}
	return s
}

// put writes the graphemes of text that fit into a row, from column x on. It returns the column behind them.
func put(row []ScreenCell, x int, text string, style ScreenStyle) int {
	for text != "" {
		g, w := ansi.FirstGraphemeCluster(text, ansi.GraphemeWidth)
		text = text[len(g):]
		if w <= 0 || x+w > len(row) {
			continue
		}
		row[x] = ScreenCell{Text: g, Width: w, Style: style}
		for i := 1; i < w; i++ {
			row[x+i] = ScreenCell{Style: style}
		}
		x += w
	}
	return x
}

func demoScreen() Screen {
	return screenOf(60, 7, "{bold #ffffff on #5e81ac} ddtop {} plain {#bf616a}red{} {#ff8700}256{} {#010203}rgb",
		"{reverse}reverse over blanks   {}|",
		"日本 wide, é́ combined {underline}under{} {faint}faint{} {italic}italic",
		"{#a3be8c}▁▃▆█▌▐{on #0a141e} bg {}<&\"'>",
		"two  blanks   end a run, {underline}but  not underlined{} ↑ ↓ … x",
		"cut here because it is far too long for the screen's width of sixty cells")
}

func svg(t testing.TB, screen Screen, o ScreenOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := ScreenSVG(&b, screen, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestScreenGolden(t *testing.T) {
	golden.Check(t, "screen.svg", svg(t, demoScreen(), ScreenOptions{Title: "ddtop <demo>"}))
}

// checkScreenSVG fails the test unless everything in a picture lies on the grid of cells and inside the picture.
func checkScreenSVG(t *testing.T, b []byte, w, h int) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(b))
	inside := false
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not well-formed: %v\n%s", err, b)
		}
		e, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		attr := map[string]string{}
		for _, a := range e.Attr {
			attr[a.Name.Local] = a.Value
		}
		switch e.Name.Local {
		case "svg", "title", "circle":
		case "g":
			inside = true
		case "rect", "text":
			if !inside {
				continue
			}
			x, _ := strconv.ParseFloat(attr["x"], 64)
			length := attr["textLength"]
			if e.Name.Local == "rect" {
				length = attr["width"]
			}
			n, err := strconv.ParseFloat(length, 64)
			if err != nil || n <= 0 || x < 0 || x+n > float64(w*cellWidth) {
				t.Fatalf("%s from %s over %s in %d cells", e.Name.Local, attr["x"], length, w)
			}
			if e.Name.Local == "text" && (int(x)%cellWidth != 0 || int(n)%cellWidth != 0) {
				t.Fatalf("text from %s over %s is off the grid", attr["x"], length)
			}
		default:
			t.Fatalf("element %s", e.Name.Local)
		}
	}
}

func FuzzScreen(f *testing.F) {
	for _, s := range []string{"{reverse #ff0000}a{on #00ff00}b", "\x1b[", "\xff\xfe", "<script>", "a\tb", "👩‍👩‍👧", "\u202e", "\x9b31m", "日本"} {
		f.Add(s, 10, 3)
	}
	f.Fuzz(func(t *testing.T, s string, w, h int) {
		w, h = max(w%200, 0), max(h%60, 0)
		checkScreenSVG(t, svg(t, screenOf(w, h, strings.Split(strings.ToValidUTF8(s, "\uFFFD"), "\n")...), ScreenOptions{Title: s}), w, h)
	})
}

func BenchmarkScreenSVG200x50(b *testing.B) {
	line := strings.Repeat("{#c86432}WWWW{#c86432 on #0a141e} text {}████▌ plain text here ", 7)
	screen := screenOf(200, 50, slices.Repeat([]string{line}, 50)...)
	for b.Loop() {
		svg(b, screen, ScreenOptions{})
	}
}
