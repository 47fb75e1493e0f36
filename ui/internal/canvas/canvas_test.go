package canvas

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

func TestClean(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", "http-1", "http-1"},
		{"escape sequence", "a\x1b[31mred", "a␛[31mred"},
		{"OSC title", "\x1b]0;owned\x07", "␛]0;owned␇"},
		{"one-byte CSI", "a\u009b31m", "a\uFFFD31m"},
		{"line breaks", "a\r\nb\u2028c", "a␍␊b␤c"},
		{"delete", "a\x7f", "a␡"},
		{"bidi override", "a\u202eb", "ab"},
		{"joiner and selectors", "👩\u200d👧 ❤\ufe0f", "👩👧 ❤"},
		{"skin tone", "👍🏽", "👍"},
		{"flag", "🇩🇪", "DE"},
		{"combining mark", "e\u0301", "e\u0301"},
		{"marks without a base", "\u0301a", "a"},
		{"too many marks", "a\u0301\u0302\u0303\u0304\u0305", "a\u0301\u0302\u0303"},
		{"invalid UTF-8", "a\xffb", "a\uFFFDb"},
		{"wide", "日本", "日本"},
		{"private use", "a\ue0b0b", "ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := Clean(tc.in); got != tc.want {
				t.Errorf("Clean(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct {
		in         string
		w          int
		cut, left_ string
	}{
		{"hello", 5, "hello", "hello"},
		{"hello", 4, "hel…", "…llo"},
		{"hello", 1, "…", "…"},
		{"hello", 0, "", ""},
		{"日本語", 5, "日本…", "…本語"},
		{"日本語", 4, "日…", "…語"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…", "…e\u0301"},
	} {
		if got := Cut(tc.in, tc.w); got != tc.cut {
			t.Errorf("Cut(%q, %d) = %q, want %q", tc.in, tc.w, got, tc.cut)
		}
		if got := CutLeft(tc.in, tc.w); got != tc.left_ {
			t.Errorf("CutLeft(%q, %d) = %q, want %q", tc.in, tc.w, got, tc.left_)
		}
	}
}

// FuzzPut: whatever text is drawn into a rectangle, nothing appears outside of it, and no control character gets to the
// screen. The terminal library and the grid must agree on the width of each line.
func FuzzPut(f *testing.F) {
	for _, s := range []string{"http-1", "\x1b]52;c;aGk=\x07", "日本語日本語日本語", "e\u0301\u0301\u0301\u0301", "👨‍👩‍👧‍👦x", "a\u202eb\u0085", "\u1100\u1161\u11a8", "क्षि", "ﷺ", "\U000e0041", "ก็็็็", "🏳️‍🌈"} {
		f.Add(s, 3, 9)
	}
	f.Fuzz(func(t *testing.T, s string, x, w int) {
		if x < -50 || x > 50 || w < 0 || w > 50 {
			return
		}
		var g Grid
		g.Reset(20, 3)
		g.Area().Fill('.', Style{})
		g.Area().Sub(4, 1, w, 1).Put(x, 0, s, Style{FG: RGB(0xff0000), Attr: Bold})
		for y, line := range strings.Split(g.String(true), "\n") {
			plain := ansi.Strip(line)
			if !utf8.ValidString(plain) {
				t.Fatalf("line %d is not UTF-8: %q", y, plain)
			}
			for _, r := range plain {
				if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
					t.Fatalf("line %d holds %U: %q", y, r, plain)
				}
			}
			if y != 1 && plain != strings.Repeat(".", 20) {
				t.Fatalf("line %d was touched: %q", y, plain)
			}
		}
		for i := range 4 {
			if g.At(i, 1).Rune != '.' {
				t.Fatalf("column %d left of the area was touched", i)
			}
		}
		for i := 4 + min(w, 16); i < 20; i++ {
			if g.At(i, 1).Rune != '.' {
				t.Fatalf("column %d right of the area was touched: %q", i, g.Text())
			}
		}
		sum := 0
		for i := range 20 {
			if r := g.At(i, 1).Rune; r != 0 {
				sum += RuneWidth(r)
			}
		}
		if sum != 20 {
			t.Fatalf("the cells of the row are %d columns wide: %q", sum, g.Text())
		}
	})
}

func TestString(t *testing.T) {
	var g Grid
	g.Reset(10, 2)
	a := g.Area()
	red := Style{FG: RGB(0xff0000)}
	a.Put(0, 0, "ab", red)
	a.Put(2, 0, "cd", red.With(Bold))
	a.Put(4, 0, "ef", red)
	a.Put(0, 1, "x", Style{Attr: Reverse})
	if got, want := g.String(true), "\x1b[38;2;255;0;0mab\x1b[1mcd\x1b[0;38;2;255;0;0mef\x1b[m\n\x1b[7mx\x1b[m"; got != want {
		t.Errorf("in colour %q, want %q", got, want)
	}
	if got, want := g.String(false), "ab\x1b[1mcd\x1b[0mef\n\x1b[7mx\x1b[m"; got != want {
		t.Errorf("without %q, want %q", got, want)
	}
	if got, want := g.Text(), "abcdef\nx\n"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
}

// TestStylesAreThoseOfLipgloss: for each style the grid must write the same escape sequences as the library Lip Gloss.
func TestStylesAreThoseOfLipgloss(t *testing.T) {
	red, blue := RGB(0xff0000), RGB(0x0072b2)
	for attr := range Reverse << 1 {
		for _, st := range []Style{{Attr: attr}, {FG: red, Attr: attr}, {BG: blue, Attr: attr}, {FG: red, BG: blue, Attr: attr}} {
			var g, want Grid
			g.Reset(1, 1)
			g.Area().Put(0, 0, "x", st)
			if got, lip := g.String(true), st.Lipgloss().Render("x"); parts(got) != parts(lip) {
				t.Errorf("%+v: %q, Lip Gloss renders %q", st, got, lip)
			}
			want.Reset(1, 1)
			want.Area().Put(0, 0, "x", Style{Attr: attr})
			if got, want := g.String(false), want.String(true); got != want {
				t.Errorf("%+v without colour: %q, want %q", st, got, want)
			}
		}
	}
}

// parts returns the escape sequences before the character x that set the style. It sorts them and drops duplicates,
// because Lip Gloss sets underlining twice.
func parts(s string) string {
	opened, _, _ := strings.Cut(s, "x")
	found := regexp.MustCompile(`[34]8;2;\d+;\d+;\d+|\d+`).FindAllString(opened, -1)
	slices.Sort(found)
	return strings.Join(slices.Compact(found), " ")
}

// TestSequencesAreBounded: a picture has more styles than the cache of escape sequences can hold. It must still be
// drawn correctly.
func TestSequencesAreBounded(t *testing.T) {
	var g Grid
	for i := range uint32(3) {
		g.Reset(200, 100)
		for y := range 100 {
			for x := range 200 {
				g.Area().Rune(x, y, 'x', Style{FG: RGB(i<<16 | uint32(y*200+x))})
			}
		}
		if s := g.String(true); !strings.Contains(s, fmt.Sprintf("38;2;%d;%d;%dmx\x1b[m", i, 19999>>8, 19999&255)) {
			t.Fatalf("the last colour is missing: %q", s[len(s)-100:])
		}
		if len(g.sgr.known) > maxSequences {
			t.Fatalf("%d sequences are kept", len(g.sgr.known))
		}
	}
}

// TestWideCharactersAreMended: if one half of a wide character is overwritten, the other half must become a blank cell.
// A terminal cannot show half a character.
func TestWideCharactersAreMended(t *testing.T) {
	var g Grid
	g.Reset(6, 1)
	a := g.Area()
	a.Put(0, 0, "日本語", Style{})
	a.Put(1, 0, "x", Style{})
	if got := g.Text(); got != " x本語\n" {
		t.Errorf("overwriting the second half: %q", got)
	}
	a.Put(0, 0, "日本語", Style{})
	a.Put(2, 0, "x", Style{})
	if got := g.Text(); got != "日x 語\n" {
		t.Errorf("overwriting the first half: %q", got)
	}
}

func BenchmarkString(b *testing.B) {
	var g Grid
	g.Reset(200, 50)
	for y := range 50 {
		for x := range 200 {
			g.Area().Rune(x, y, 'x', Style{FG: RGB(uint32(x * y))})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = g.String(true)
	}
}

// FuzzWidth: a terminal may measure a string rune by rune, or by grapheme clusters (mode 2027). After Clean, a string
// must have the same width by both methods.
func FuzzWidth(f *testing.F) {
	for _, s := range []string{"http-1", "日本語", "e\u0301", "👨‍👩‍👧‍👦x", "\u1100\u1161\u11a8", "क्षि", "ﷺ", "ก็็็็", "🏳️‍🌈", "1️⃣", "©️", "ํ", "\u0903", "தமிழ்"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := Clean(s)
		w := Width(s)
		if g, wc := ansi.StringWidth(c), ansi.StringWidthWc(c); g != w || wc != w {
			t.Fatalf("%q cleaned to %q (%+q): we say %d columns, by clusters %d, by runes %d", s, c, c, w, g, wc)
		}
		if again := Clean(c); again != c {
			t.Fatalf("cleaning %q twice gives %q", c, again)
		}
	})
}

// TestSimpleCharactersAreSimple: each character that isSimple accepts must be one column wide, whatever method is used
// to measure it.
func TestSimpleCharactersAreSimple(t *testing.T) {
	n := 0
	for r := rune(0); r < 0x10000; r++ {
		if s := string(r); isSimple(s) && utf8.ValidRune(r) {
			n++
			if RuneWidth(r) != 1 || ansi.StringWidth(s) != 1 || ansi.StringWidthWc(s) != 1 || cleanRunes(s) != s {
				t.Errorf("%U %q: we say %d columns, by clusters %d, by runes %d", r, s, RuneWidth(r), ansi.StringWidth(s), ansi.StringWidthWc(s))
			}
		}
	}
	if n < 500 {
		t.Errorf("only %d characters are simple", n)
	}
}

func TestToASCII(t *testing.T) {
	var g Grid
	g.Reset(20, 2)
	g.Area().Put(0, 0, "│a…日e\u0301ÿ▆", Style{})
	g.ToASCII()
	if got, want := g.Text(), "|a~??e?+\n\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
