package ui

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// pageViews are the pages whose pictures are stored in files. Each has the recording that it shows, and the keys that
// lead to the page.
var pageViews = []struct {
	name, recording string
	keys            []string
}{
	{"threads", "hog", []string{"2", "down"}},
	{"onethread", "hog", []string{"2", ">", ">", ">", "t", "down", "enter"}},
	{"timeline", "gc", []string{"3", "down"}},
	{"cursor", "hog", []string{"3", "down", "down", "left", "left", "H"}},
	{"flame", "hog", []string{"4", "down", "down", "down"}},
	{"flames", "hog", []string{"4", "f", "down", "up", "up", "up"}},
	{"inverted", "hog", []string{"4", "i", "down"}},
	{"compare", "healthy", []string{"{", "}", "}", "}", "4", "=", "[", "[", "[", "[", "[", "[", "[", "[", "[", "[", "[", "["}},
	{"allocation", "gc", []string{"4", "w", "w", "w", "w", "down", "down"}},
	{"topallocation", "gc", []string{"5", "w", "w", "w", "w", "down"}},
	{"top", "hog", []string{"5", "down"}},
	{"topgems", "stall", []string{"5", "right", "right", ">"}},
	{"locks", "mutex", []string{"6", "down"}},
	{"memory", "gc", []string{"7"}},
	{"waits", "hog", []string{"0", "down"}},
	{"exactwaits", "exact", []string{"0", "down", "down"}},
	{"exacttimeline", "exact", []string{"0", "r", "pgdown", "pgdown", "pgdown", "enter"}},
	{"blame", "hog", []string{"6"}},
}

// recordings caches recordings of this repository by name, so that a test plays each recording only once.
type recordings map[string]*store.Store

func (rs recordings) picture(t *testing.T, rec string, o scene.Options, w, h int, keys ...string) Picture {
	t.Helper()
	o.Window = 15 * time.Second
	store := rs[rec]
	if store == nil {
		r, err := recording.Open("../screenshots/recordings/" + rec + ".ddtop")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if store, err = newStore(r, o.WithDefaults()); err != nil {
			t.Fatal(err)
		}
		if err := r.Run(t.Context(), store.Feed); err != nil && !errors.Is(err, sampler.ErrEnded) {
			t.Fatal(err)
		}
		rs[rec] = store
	}
	p, err := pictureOf(store, o.WithDefaults(), w, h, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGoldenPages(t *testing.T) {
	rs := make(recordings)
	for _, v := range pageViews {
		goldens(t, "page-"+v.name, func(t *testing.T, o scene.Options, width, height int) Picture {
			o.Replay = true
			return rs.picture(t, v.recording, o, width, height, v.keys...)
		})
	}
}

// BenchmarkPage draws one picture of each page at 200x50. It measures all the work from the stored data to the string
// that goes to the terminal. Parts that rarely change are computed again for each picture.
func BenchmarkPage(b *testing.B) {
	for _, threads := range []int{50, 500} {
		for _, v := range pageViews {
			s := newScreen(b, 200, 50, demosource.Options{Length: 31 * time.Second, HTTP: threads - 7}, scene.Options{})
			b.Run(fmt.Sprintf("%s/200x50/threads=%d", v.name, threads), func(b *testing.B) {
				s.press(v.keys...)
				b.ReportAllocs()
				for b.Loop() {
					s.model.Refresh()
				}
				b.ReportMetric(float64(len(s.model.grid.String(true))), "bytes/frame")
			})
		}
	}
}

// everyKey presses each key of a page, to check that no key panics.
func (s *screen) everyKey(id scene.PageID) {
	for _, b := range s.model.pages[id].Keys(&s.model.Scene, false)[0].Bindings {
		for _, k := range b.Keys {
			if !strings.Contains(k, "+") || k == "+" {
				s.model.Open(id)
				s.pressAll(k)
			}
		}
	}
	s.model.Open(id)
}

// TestPagesBeforeTheFirstSample: before the first sample, each page can be drawn, and its keys can be pressed without a
// panic.
func TestPagesBeforeTheFirstSample(t *testing.T) {
	for _, size := range screenSizes {
		store, err := newStore(demosource.New(demosource.Options{}), scene.Options{History: store.DefaultHistory})
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewModel(store, scene.Options{}.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		s := &screen{t, m, store}
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for _, id := range pagesOfOne()[1:] {
			s.everyKey(id)
			s.sees("nothing measured yet")
			checkRows(t, s, fmt.Sprintf("page %s", id))
		}
	}
}

// TestPagesHoldHostileNames: whatever names the threads have, each row of each page fits into the terminal, at every
// size.
func TestPagesHoldHostileNames(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 3 * time.Second, ExtraNames: hostileNames, Title: "ev\x1b[31mil 日本"}, scene.Options{})
	for _, id := range pagesOfOne()[1:] {
		for _, size := range [][2]int{{60, 15}, {80, 24}, {121, 40}, {300, 100}} {
			s.resize(size[0], size[1])
			s.everyKey(id)
			checkRows(t, s, fmt.Sprintf("page %s at %dx%d", id, size[0], size[1]))
		}
	}
}

// pagesOfOne returns the pages that the screen of a single process has.
func pagesOfOne() []scene.PageID {
	var out []scene.PageID
	for _, v := range views {
		if v.Make != nil {
			out = append(out, v.ID)
		}
	}
	return out
}
