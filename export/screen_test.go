package export

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/internal/golden"
)

const demoScreen = "\x1b[1;97;44m ddtop \x1b[0m plain \x1b[31mred\x1b[39m \x1b[38;5;208m256\x1b[m \x1b[38;2;1;2;3mrgb\x1b[0m\r\n" +
	"\x1b[7mreverse over blanks   \x1b[27m|\n" +
	"日本 wide, é́ combined \x1b[4munder\x1b[24m \x1b[9mstrike\x1b[29m \x1b[2mfaint\x1b[22m \x1b[3mitalic\x1b[23m\n" +
	"\x1b[32m▁▃▆█▌▐\x1b[0m\x1b[48:2::10:20:30m bg \x1b[0m<&\"'>\n" +
	"two  blanks   end a run, \x1b[4mbut  not underlined\x1b[24m ↑ ↓ … x\n" +
	"cut here because it is far too long for the screen's width of sixty cells\n" +
	"\n\n\nbelow the last row"

func svg(t testing.TB, screen string, w, h int, o ScreenOptions) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := ScreenSVG(&b, screen, w, h, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestScreenGolden(t *testing.T) {
	golden.Check(t, "screen.svg", svg(t, demoScreen, 60, 7, ScreenOptions{Title: "ddtop <demo>"}))
	golden.Check(t, "screen.txt", []byte(ScreenText(demoScreen, 60, 7)))
}

func TestSGR(t *testing.T) {
	rgb := func(r, g, b uint8) color { return color{kind: colorRGB, r: r, g: g, b: b} }
	idx := func(i uint8) color { return color{kind: colorIndexed, index: i} }
	for _, c := range []struct {
		seq  string
		want style
	}{
		{"", style{}}, {"0", style{}}, {"1;3;7", style{bold: true, italic: true, reverse: true}},
		{"31", style{fg: idx(1)}}, {"97;101", style{fg: idx(15), bg: idx(9)}}, {"38;5;208", style{fg: idx(208)}},
		{"38;2;1;2;3;1", style{fg: rgb(1, 2, 3), bold: true}}, {"48:5:17", style{bg: idx(17)}}, {"38:2:1:2:3", style{fg: rgb(1, 2, 3)}},
		{"38:2::1:2:3", style{fg: rgb(1, 2, 3)}}, {"58;5;9;1", style{bold: true}}, {"4:3", style{underline: true}}, {"4:0", style{}},
		{"1;22", style{}}, {"38;5", style{}}, {"38;2;1;2", style{}}, {"999", style{}}, {"?25", style{}}, {">4;1", style{}},
		{"1;;3", style{italic: true}}, {"38;2;300;0;0", style{fg: rgb(255, 0, 0)}},
	} {
		var s style
		s.sgr(c.seq)
		if s != c.want {
			t.Errorf("%q: %+v, want %+v", c.seq, s, c.want)
		}
	}
}

func TestColorText(t *testing.T) {
	for i, want := range map[uint8]string{16: "#000000", 21: "#0000ff", 196: "#ff0000", 208: "#ff8700", 231: "#ffffff", 232: "#080808", 255: "#eeeeee"} {
		if got := colorText(color{kind: colorIndexed, index: i}, ""); got != want {
			t.Errorf("%d is %s, xterm says %s", i, got, want)
		}
	}
}

// checkScreenSVG parses a picture and tests that everything lies on the grid and inside it.
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
	for _, s := range []string{demoScreen, "\x1b[", "\x1b[38;5m", "\x1b]8;;http://x\a link", "\xff\xfe", "\x1b[999999999999m", "<script>", "a\tb", "👩‍👩‍👧", "\x1bP q\x1b\\", "\u202e", "\x9b31m"} {
		f.Add(s, 10, 3)
	}
	f.Fuzz(func(t *testing.T, s string, w, h int) {
		w, h = w%200, h%60
		checkScreenSVG(t, svg(t, s, w, h, ScreenOptions{Title: s}), max(w, 0), max(h, 0))
		text := ScreenText(s, w, h)
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if h > 0 && len(lines) != h {
			t.Errorf("%d lines, want %d", len(lines), h)
		}
		for _, l := range lines {
			if n := ansi.StringWidth(l); n > max(w, 0) {
				t.Errorf("a line of %d cells on a screen of %d: %q", n, w, l)
			}
			if strings.ContainsRune(l, 0x1b) {
				t.Errorf("an escape sequence is left in %q", l)
			}
		}
	})
}

func BenchmarkScreenSVG200x50(b *testing.B) {
	line := "\x1b[38;2;200;100;50mWWWW\x1b[48;2;10;20;30m text \x1b[0m████▌ plain text here "
	screen := strings.Repeat(strings.Repeat(line, 7)+"\n", 50)
	for b.Loop() {
		svg(b, screen, 200, 50, ScreenOptions{})
	}
}
