package ui

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/sampler/redact"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// hostileNames are names that a hostile program can give its threads. They try to control the terminal or to break the
// picture.
var hostileNames = []string{
	"\x1b[2J\x1b[31mcleared", "\x1b]0;title\x07", "\x1b]52;c;b3duZWQ=\x07", "\u009b31m", "line\r\nbreak\ttab\x00",
	"日本語のとても長いスレッドの名前です", "e\u0301\u0301\u0301\u0301\u0301\u0301combining", "a\u202egnp.exe", "\u200b\u200d\ufeff",
	"👨‍👩‍👧‍👦 family", "🏳️‍🌈", "ﷺﷺﷺ", "क्षि த", "\xff\xfe invalid", strings.Repeat("long", 100), "</text><script>", " ", "-1", "12",
	"pool #1 (日本)", "pool #2 (日本)", "ก็็็็็็็็็็",
}

// TestHostileNames: whatever names the threads have, each row fits into the terminal, at every size. The output must
// have no control characters except the ones for ddtop's own styles.
func TestHostileNames(t *testing.T) {
	d := demosource.Options{Length: 2 * time.Second, ExtraNames: hostileNames, Title: "ev\x1b[31mil 日本 \u202e"}
	s := newScreen(t, 120, 80, d, scene.Options{})
	sizes := [][2]int{{60, 15}, {61, 16}, {79, 24}, {80, 24}, {99, 30}, {100, 31}, {121, 40}, {159, 50}, {160, 48}, {200, 50}, {300, 100}}
	for _, size := range sizes {
		for _, keys := range [][]string{nil, {"I"}, {"I", "tab", "down", "enter"}, {"esc", "tab", "end", "up", "up", "up", "enter"}, {"space"}, {"?"}, {"esc", "space", "esc"}} {
			s.resize(size[0], size[1])
			s.press(keys...)
			checkRows(t, s, fmt.Sprintf("%dx%d after %v", size[0], size[1], keys))
		}
	}
}

// TestHostileRequests: control characters in the texts of requests do not break any view. The test checks this with and
// without a Redactor (which hides values).
func TestHostileRequests(t *testing.T) {
	said := strings.Join(hostileNames, "")
	for _, o := range []scene.Options{{}, {Redactor: redact.New()}} {
		d := demosource.Options{Length: 30 * time.Second, Serving: true, Said: said}
		o.Folder = t.TempDir()
		s := newScreen(t, 120, 80, d, o)
		for _, size := range [][2]int{{60, 15}, {80, 24}, {99, 30}, {120, 40}, {200, 50}, {300, 100}} {
			s.resize(size[0], size[1])
			for _, keys := range [][]string{{"9"}, {"down", "down"}, {"tab"}, {"enter"}, {"9", "home", "enter"}, {"1"}, {"2"}, {"3"}, {"6"}, {"?"}, {"esc"}} {
				s.press(keys...)
				checkRows(t, s, fmt.Sprintf("%dx%d after %v", size[0], size[1], keys))
			}
		}
		s.press("9")
		if p := s.requestsPage(); len(p.Running.Rows) == 0 || len(p.Endpoints.Rows) == 0 {
			t.Errorf("%d requests and %d routes were drawn", len(p.Running.Rows), len(p.Endpoints.Rows))
		}
	}
}

// TestControlCharactersLookAlike: a control character in a name is replaced by a visible sign. The flamegraph and the
// timeline must use the same sign.
func TestControlCharactersLookAlike(t *testing.T) {
	for _, o := range []scene.Options{{}, {NoColor: true}, {ASCII: true}} {
		s := newScreen(t, 200, 50, demosource.Options{Length: 2 * time.Second, HogAfter: -1, ExtraNames: []string{"\x1b[2Jwiped"}}, o)
		s.press("I")
		want := "␛[2Jwiped"
		if o.ASCII {
			want = "?[2Jwiped"
		}
		for _, view := range []string{"1", "4"} { // in view 1 the timeline shows the name, too
			s.press(view)
			if n := strings.Count(s.text(), want); n != 1 && view == "4" || n != 2 && view == "1" || strings.Contains(s.text(), "\uFFFD") {
				t.Errorf("ASCII %t, no colours %t, view %s: %q stands there %d times:\n%s", o.ASCII, o.NoColor, view, want, n, s.text())
			}
		}
	}
}

func checkRows(t *testing.T, s *screen, when string) {
	t.Helper()
	rows := strings.Split(s.model.grid.String(true), "\n")
	if len(rows) != s.model.Height {
		t.Fatalf("%s: %d rows", when, len(rows))
	}
	for y, row := range rows {
		plain := ansi.Strip(row)
		for _, r := range plain {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Fatalf("%s, row %d: %U in %q", when, y, r, plain)
			}
		}
		if clusters, runes := ansi.StringWidth(row), ansi.StringWidthWc(row); clusters > s.model.Width || runes != clusters {
			t.Fatalf("%s, row %d: %d columns by clusters, %d by runes: %q", when, y, clusters, runes, plain)
		}
		for _, seq := range strings.Split(row, "\x1b")[1:] {
			if !strings.HasPrefix(seq, "[") || strings.Trim(seq[1:strings.IndexByte(seq, 'm')], "0123456789;") != "" {
				t.Fatalf("%s, row %d: a sequence that is not a style: %q", when, y, seq)
			}
		}
	}
	if title := s.model.View().WindowTitle; strings.ContainsFunc(title, unicode.IsControl) {
		t.Fatalf("the window's title: %q", title)
	}
}

// TestEverySize: the screen can be drawn at every size up to 300x100, and no row is wider than the terminal.
func TestEverySize(t *testing.T) {
	s := newScreen(t, 80, 24, demosource.Options{Length: 15 * time.Second, HTTP: 40}, scene.Options{})
	for h := scene.MinHeight; h <= 100; h += 5 {
		for w := scene.MinWidth; w <= 300; w += 11 {
			s.resize(w, h)
			checkRows(t, s, fmt.Sprintf("%dx%d", w, h))
			g := &s.model.Regions
			if g.FlameRows < 3 || g.RowCount < 1 || g.Footer != h-1 || g.CellsW < 20 {
				t.Fatalf("%dx%d: %+v", w, h, *g)
			}
		}
	}
	s.resize(80, 24)
	if g := &s.model.Regions; g.CellsW < scene.MinTimelineColumns-2 || g.FlameRows < scene.MinFlameRows {
		t.Fatalf("80x24: %+v", *g)
	}
}

// TestASCII: with the option ASCII, the screen has no character outside ASCII.
func TestASCII(t *testing.T) {
	s := newScreen(t, 120, 80, demosource.Options{Length: 12 * time.Second, ExtraNames: hostileNames}, scene.Options{ASCII: true})
	for _, keys := range [][]string{nil, {"tab", "down", "enter"}, {"space"}, {"?"}, {"esc", "/", "é"}} {
		s.press(keys...)
		for i, r := range s.text() {
			if r > 0x7e {
				t.Fatalf("%q at %d after %v", r, i, keys)
			}
		}
	}
}
