package ui

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

var update = flag.Bool("update", false, "write the golden pictures instead of comparing with them")

// golden compares a picture with the stored file testdata/NAME. `go test ./ui -update` writes the files again. A person
// must then review the changes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: go test ./ui -update writes it", err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		var a, b string
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if a != b {
			t.Fatalf("%s: row %d differs (go test ./ui -update accepts it):\n got %q\nwant %q", path, i+1, a, b)
		}
	}
}

// screenSizes are the screen sizes that tests draw. goldenSizes are the sizes whose pictures are stored in files. The
// largest size has no file. For it showsAll checks that the picture has everything that the smaller size shows.
var (
	screenSizes = [][2]int{{80, 24}, {120, 40}, {200, 50}}
	goldenSizes = screenSizes[:2]
)

// goldens compares the pictures of a view with the stored files (golden files). It does this at all sizes, with and
// without colours.
func goldens(t *testing.T, name string, draw func(t *testing.T, o scene.Options, width, height int) Picture) {
	for _, o := range []scene.Options{{}, {NoColor: true}} {
		var before Picture
		for i, size := range screenSizes {
			full := fmt.Sprintf("%s-%dx%d", name, size[0], size[1])
			if o.NoColor {
				full += "-nocolor"
			}
			t.Run(full, func(t *testing.T) {
				p := draw(t, o, size[0], size[1])
				if i < len(goldenSizes) {
					golden(t, full+".golden", p.Terminal+"\n")
				} else {
					showsAll(t, p, before, moved[name])
				}
				if o.NoColor {
					noColorHolds(t, p.Terminal)
				}
				before = p
			})
		}
	}
}

// word matches words that name something: they have at least four characters. laneText matches letters of states in the
// timeline. showsAll ignores these letters, because a wider screen has more of them. holders matches the row of the
// timeline that shows which thread held the GVL.
var (
	holders  = regexp.MustCompile(`(?m)^ *GVL held by .*$`)
	word     = regexp.MustCompile(`[A-Za-z#:_.]{4,}…?`)
	laneText = regexp.MustCompile(`^[` + stateLetters() + `.]+$`)
)

// moved has, for each view, the words of the smaller screen that the larger screen may lack. For example, the larger
// screen has room for a longer form of a word, or its columns are for other moments.
var moved = map[string][]string{"page-threads": {"more", "frames"}, "page-cursor": {"IO#gets", "DB#read_answer", "more", "frames"},
	"page-exacttimeline": {"Cache#fetch", "IO#readpartial", "pipe", "Orders#show", "Integer#times", "internal:numeric", "Enumerator#each", "Enumerable#sum", "block"},
	"page-requests":      {"blame", "more:"}, "page-requestsidle": {"blame"}}

func stateLetters() string {
	var letters []byte
	for s := range gvl.NumStates {
		letters = append(letters, s.Letter())
	}
	return regexp.QuoteMeta(string(letters))
}

// showsAll fails the test unless the larger picture has every word of the smaller one, except the words in moved.
func showsAll(t *testing.T, larger, smaller Picture, moved []string) {
	t.Helper()
	for _, w := range word.FindAllString(holders.ReplaceAllString(smaller.Text, ""), -1) {
		if !strings.HasSuffix(w, "…") && !laneText.MatchString(w) && !slices.Contains(moved, w) && !strings.Contains(larger.Text, w) {
			t.Errorf("%q stands on the smaller screen and not on the larger one:\n%s\n%s", w, smaller.Text, larger.Text)
		}
	}
}

// goldenViews are the views whose pictures are stored in files, with the keys that lead to each view.
var goldenViews = []struct {
	name string
	keys []string
}{
	{"live", nil},
	{"thread", []string{"down", "down"}},
	{"zoom", []string{"tab", "down", "down", "down", "down", "enter", "down"}},
	{"blame", []string{"w", "w", "w", "o"}},
	{"frozen", []string{"[", "[", "[", "/", "D", "B", "enter"}},
	{"help", []string{"?"}},
	{"memory", []string{"7"}},
}

// TestGoldenRecording draws the screen for a recording, and compares it with the golden files. In the recording, of a
// real Ruby 3.4, one thread hogs the GVL.
func TestGoldenRecording(t *testing.T) {
	rs := make(recordings)
	goldens(t, "recording-live", func(t *testing.T, o scene.Options, width, height int) Picture {
		return rs.picture(t, "hog", o, width, height)
	})
}

// TestGoldenViews draws views of the made-up order service, and compares them with the golden files.
func TestGoldenViews(t *testing.T) {
	src := demosource.New(demosource.Options{Length: 30 * time.Second})
	store, err := newStore(src, scene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Run(t.Context(), store.Feed); !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	for _, v := range goldenViews {
		goldens(t, v.name, func(t *testing.T, o scene.Options, width, height int) Picture {
			p, err := pictureOf(store, o.WithDefaults(), width, height, v.keys...)
			if err != nil {
				t.Fatal(err)
			}
			return p
		})
	}
}

// noColorHolds fails the test if a screen that must have no colours contains an escape sequence for a colour.
func noColorHolds(t *testing.T, screen string) {
	t.Helper()
	for _, part := range strings.Split(screen, "\x1b[")[1:] {
		sgr, _, ok := strings.Cut(part, "m")
		if !ok {
			t.Fatalf("not a style: %q", part)
		}
		for _, p := range strings.Split(sgr, ";") {
			switch p {
			case "", "0", "1", "2", "3", "4", "7":
			default:
				t.Fatalf("NO_COLOR and still %q", sgr)
			}
		}
	}
}
