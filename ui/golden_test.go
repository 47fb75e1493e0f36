package ui

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
)

var update = flag.Bool("update", false, "write the golden pictures instead of comparing with them")

// golden compares a picture with testdata/NAME. `go test ./ui -update` writes them again; look at the difference.
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
		t.Fatal(err)
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

var goldenSizes = [][2]int{{80, 24}, {120, 40}, {200, 50}}

// views are the pictures of which goldens are kept, by the keys that lead there.
var views = []struct {
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

// TestGoldenRecording draws a recording of the bundled program on a real Ruby 3.4, in which one thread hogs the GVL.
func TestGoldenRecording(t *testing.T) {
	rs := make(recordings)
	for _, size := range goldenSizes {
		for _, noColor := range []bool{false, true} {
			name := fmt.Sprintf("live-%dx%d", size[0], size[1])
			if noColor {
				name += "-nocolor"
			}
			t.Run(name, func(t *testing.T) {
				p := rs.picture(t, "hog", Options{NoColor: noColor}, size[0], size[1])
				golden(t, "recording-"+name+".golden", p.Terminal+"\n")
			})
		}
	}
}

// TestGoldenViews draws every view of the made-up order service.
func TestGoldenViews(t *testing.T) {
	src := demosource.New(demosource.Options{Length: 30 * time.Second})
	store, err := NewStore(src, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Run(t.Context(), store.Feed); !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	for _, v := range views {
		for _, size := range goldenSizes {
			for _, noColor := range []bool{false, true} {
				name := fmt.Sprintf("%s-%dx%d", v.name, size[0], size[1])
				if noColor {
					name += "-nocolor"
				}
				t.Run(name, func(t *testing.T) {
					p, err := store.picture(Options{NoColor: noColor}.withDefaults(), size[0], size[1], v.keys...)
					if err != nil {
						t.Fatal(err)
					}
					golden(t, name+".golden", p.Terminal+"\n")
					if noColor {
						noColorHolds(t, p.Terminal)
					}
				})
			}
		}
	}
}

// noColorHolds: without colours no sequence sets one.
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
