package ui

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/export/snapshot"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// shotVariants are the themes and options with which every picture is drawn. Each has the sizes of its pictures.
var shotVariants = []struct {
	name    string
	options scene.Options
	keys    []string // pressed after the keys of the view
	sizes   [][2]int
}{
	{"dark", scene.Options{Theme: "dark"}, nil, [][2]int{{60, 15}, {80, 24}, {120, 40}, {200, 50}, {300, 100}}},
	{"light", scene.Options{Theme: "light"}, nil, screenSizes},
	{"high-contrast", scene.Options{Theme: "high-contrast"}, nil, screenSizes},
	{"nocolor", scene.Options{NoColor: true}, nil, screenSizes},
	{"ascii", scene.Options{NoColor: true, ASCII: true}, nil, screenSizes},
	{"present", scene.Options{Theme: "dark"}, []string{"P"}, screenSizes},
}

// shotViews are pictures that have no golden file. They show the live view for each kind of trouble, earlier times, and
// overlays (boxes over the screen).
var shotViews = []struct {
	name, recording string
	keys            []string
}{
	{"live-hog", "hog", nil},
	{"live-mutex", "mutex", nil},
	{"live-database", "database", nil},
	{"live-gc", "gc", nil},
	{"live-stall", "stall", nil},
	{"live-healthy", "healthy", nil},
	{"live-selected", "hog", []string{"down", "down"}},
	{"live-flame", "hog", []string{"tab", "down", "down", "down", "down"}},
	{"live-state", "hog", []string{"o", "I"}},
	{"live-search", "hog", []string{"/", "R", "e", "p", "o", "r", "t", "enter", "n"}},
	{"live-nomatch", "hog", []string{"/", "z", "z", "z", "enter"}},
	{"live-wait", "hog", []string{"w", "w"}},
	{"live-blame", "hog", []string{"w", "w", "w"}},
	{"frozen", "hog", []string{"space"}},
	{"scrubbed", "hog", []string{"[", "[", "[", "[", "down"}},
	{"range", "hog", []string{"{", "{", "[", "["}},
	{"short", "hog", []string{"}", "}", "}"}},
	{"playing", "hog", []string{"[", "[", "[", "p"}},
	{"help", "hog", []string{"?"}},
	{"help-flame", "hog", []string{"4", "?"}},
	{"prompt", "hog", []string{"/", "J", "S"}},
	{"note", "hog", []string{"m", "d", "e", "p", "l", "o", "y"}},
	{"noted", "hog", []string{"[", "m", "d", "e", "p", "l", "o", "y", "enter"}},
	{"onethread-http", "database", []string{"2", "down", "down", "enter"}},
	{"scrubbed-thread", "hog", []string{"2", "down", "enter", "[", "["}},
	{"memory-healthy", "healthy", []string{"7"}},
	{"locks-healthy", "healthy", []string{"6"}},
	{"toplines", "hog", []string{"5", "right", "down"}},
	{"topfiles", "gc", []string{"5", "right", "right", "right", "down"}},
}

// TestShots writes pictures of all views, in all variants and sizes, into the folder that DDTOP_SHOTS names. A person
// then checks them by eye.
func TestShots(t *testing.T) {
	dir := os.Getenv("DDTOP_SHOTS")
	if dir == "" {
		t.Skip("DDTOP_SHOTS names no folder")
	}
	write := func(name string, p Picture) {
		t.Helper()
		var b bytes.Buffer
		if err := snapshot.ScreenSVG(&b, p.Screen, p.Options); err != nil {
			t.Fatal(err)
		}
		name = fmt.Sprintf("%s-%dx%d.svg", name, p.Width, len(p.Rows))
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rs := make(recordings)
	for _, look := range shotVariants {
		for _, size := range look.sizes {
			w, h := size[0], size[1]
			for i, v := range slices.Concat(shotViews, pageViews) {
				o := look.options
				o.Replay = i >= len(shotViews)
				write(v.name+"-"+look.name, rs.picture(t, v.recording, o, w, h, slices.Concat(v.keys, look.keys)...))
			}
			for name, keys := range map[string][]string{"processes": nil, "processes-one": {"down", "down", "v", "tab", "down", "down"},
				"processes-findings": {"v", "v", "tab"}, "processes-open": {"down", "enter"}} {
				s := clusterScreen(t, w, h, look.options)
				s.press(slices.Concat(keys, look.keys)...)
				write(name+"-"+look.name, taken(s.fleet.screen()))
			}
			for name, keys := range map[string][]string{"deadlock-live": nil, "deadlock-locks": {"6"}} {
				s := deadlockScreen(t, w, h, look.options)
				s.press(slices.Concat(keys, look.keys)...)
				write(name+"-"+look.name, taken(s.model))
			}
			s := newScreen(t, w, h, demosource.Options{Length: 12 * time.Second, HTTP: 193, KilledAtEnd: true}, look.options)
			end, ended := s.store.Src.End()
			s.store.SetState(store.SourceState{Done: true, End: end, Ended: ended})
			s.press(look.keys...)
			s.model.Refresh()
			write("ended-200threads-"+look.name, taken(s.model))
		}
	}
}

// deadlockScreen returns the screen of a service with a deadlock: three threads wait for each other's locks forever.
func deadlockScreen(t *testing.T, w, h int, o scene.Options) *screen {
	t.Helper()
	src := deadlocked{demosource.New(demosource.Options{Length: 5 * time.Second, HogAfter: -1})}
	store, err := newStore(src, scene.Options{History: store.DefaultHistory})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, o.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	if err := src.Run(t.Context(), store.Feed); err == nil {
		t.Fatal("the source did not end")
	}
	m.Update(tea.WindowSizeMsg{Width: w, Height: h})
	return &screen{t, m, store}
}
