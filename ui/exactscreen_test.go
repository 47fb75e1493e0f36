package ui

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/timeline"
	"github.com/ddtop/ddtop/ui/page/waits"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// exactly returns a screen that shows the made-up order service in exact mode.
func exactly(t *testing.T, w, h int, o scene.Options) *screen {
	t.Helper()
	return newScreen(t, w, h, demosource.Options{Length: 12 * time.Second, HogAfter: 6 * time.Second, Exact: true}, o)
}

func (s *screen) timelinePage() *timeline.Page {
	return s.model.pages[scene.PageTimeline].(*timeline.Page)
}

// TestTimelineOfAWait: a wait for the GVL has the same beginning and end in the thread's row of the timeline and in the
// list of waits. This must be right for waits of any length, at any size of the screen, and at every zoom down to 10 µs
// per column.
func TestTimelineOfAWait(t *testing.T) {
	const looked = 5
	r := rand.New(rand.NewPCG(3, 1))
	for _, size := range screenSizes {
		s := exactly(t, size[0], size[1], scene.Options{})
		s.press("0")
		p := s.waitsPage()
		var waits []store.WaitEvent
		for _, w := range p.Table.Rows {
			if w.Exact && w.FromNS() > s.model.OldestNS+2e9 && w.EndNS < s.model.LastNS-1e9 {
				waits = append(waits, w.WaitEvent)
			}
		}
		if len(waits) < looked {
			t.Fatalf("%d exact waits", len(waits))
		}
		for range looked {
			e := waits[r.IntN(len(waits))]
			s.press("0")
			s.settled("home")
			*p.Table.Cursor = e.Key()
			s.settled("enter")
			x := s.timelinePage()
			if span := x.Span[1] - x.Span[0]; !x.Close.On() || span < 2*e.LenNS {
				t.Fatalf("a wait of %d ns in a picture of %d ns", e.LenNS, span)
			}
			s.sees("exact")
			checkWait(t, s, &e)
			for x.Close.ColumnNS > int64(10*time.Microsecond) {
				before := x.Close.ColumnNS
				s.settled("+")
				if x.Close.ColumnNS >= before {
					t.Fatalf("the zoom stays at %d ns a column", before)
				}
				checkWait(t, s, &e)
				checkRows(t, s, fmt.Sprintf("%d ns a column", x.Close.ColumnNS))
			}
			s.sees("10 µs a column", "µs")
			s.settled("+")
			s.sees("as close as it goes")
			s.settled("l", "]", "[", "esc", "esc", "esc")
		}
	}
}

// checkWait compares a wait with the row of its thread in the timeline. The state must be known in each column. The
// share of waiting in each column must fit the wait's beginning and end.
func checkWait(t *testing.T, s *screen, e *store.WaitEvent) {
	t.Helper()
	p := s.timelinePage()
	i := slices.IndexFunc(p.Timeline.Visible, func(w scene.Row) bool { return w.Key.Thread == e.Thread })
	if i < 0 {
		return // the thread has no row, because a small screen has fewer rows than threads
	}
	w, each := &p.Timeline.Visible[i], p.Close.ColumnNS
	rounds := each>>15 + 1 // rounding errors: a column keeps only 16 bits of a state's share
	for k := range w.Cells {
		from := p.Span[0] + int64(k)*each
		want := max(min(from+each, e.EndNS)-max(from, e.FromNS()), 0)
		if got := w.Cells[k].NS[gvl.Waiting]; got < want-rounds {
			t.Fatalf("column %d of %d ns: waited %d ns of it, want %d", k, each, got, want)
		}
		if got := w.Cells[k].Listed(); got < each-rounds*int64(gvl.NumStates) || got > each+rounds*int64(gvl.NumStates) {
			t.Fatalf("column %d of %d ns: %d ns are known", k, each, w.Cells[k].Listed())
		}
	}
}

// TestZoomEndsWhereSamplesDo: without exact mode the closest zoom is 10 ms per column, because samples show no shorter
// times. The screen then says that exact mode allows a closer zoom.
func TestZoomEndsWhereSamplesDo(t *testing.T) {
	s := hogged(t, 120, 40)
	s.settled("3", "left")
	for range 10 {
		s.settled("+")
	}
	if s.timelinePage().Close.On() || s.timelinePage().CellNS(&s.model.Scene) < store.FineColumnNS {
		t.Errorf("%d ns a column of what was sampled each ms", s.timelinePage().CellNS(&s.model.Scene))
	}
	s.sees("as close as samples tell", "exact mode")
	s = exactly(t, 120, 40, scene.Options{})
	s.settled("3", "left", "H", "H")
	for range 10 {
		s.settled("+")
	}
	s.sees("a column", "exact")
	if p := s.timelinePage(); !p.Close.On() || p.Close.ColumnNS >= store.FineColumnNS {
		t.Errorf("%d ns a column", p.Close.ColumnNS)
	}
	for range 20 {
		s.settled("-")
	}
	if p := s.timelinePage(); p.Close.On() || s.model.WindowNS < int64(10*time.Second) {
		t.Errorf("zoomed out to %d ns a column, %d ns", p.Close.ColumnNS, s.model.WindowNS)
	}
}

// TestExactScreenHolds: the screen shows the data of exact mode also without colours, and in ASCII. Even on small
// screens, no row is wider than the screen.
func TestExactScreenHolds(t *testing.T) {
	for _, o := range []scene.Options{{}, {NoColor: true}, {ASCII: true}, {ASCII: true, NoColor: true}} {
		o.Exact = &fakeExact{status: sampler.ExactStatus{On: true, CostShare: 0.004, Lost: 123456}}
		for _, size := range append([][2]int{{60, 15}, {300, 100}}, screenSizes...) {
			s := exactly(t, size[0], size[1], o)
			for _, keys := range [][]string{{"0"}, {"0", "down", "t"}, {"enter", "+", "+"}, {"2", "down", "enter"}, {"esc", "0", "esc", "/"}} {
				s.settled(keys...)
				checkRows(t, s, fmt.Sprintf("%v at %v", keys, size))
				if o.ASCII {
					for _, c := range s.text() {
						if c > 127 {
							t.Fatalf("%v at %v: %q is on the screen:\n%s", keys, size, c, s.text())
						}
					}
				}
			}
			if size[0] >= 80 {
				s.press("esc", "space")
				s.sees("exact 0.4 %, 123,456 lost")
			}
		}
	}
}

// TestExactWithFewSamples: if samples are rare, a thread can wait at two consecutive samples and run in between.
// Samples alone would show one long wait. Exact mode must show the same waits with few samples as with many.
func TestExactWithFewSamples(t *testing.T) {
	const each = 150 // the second screen gets every 150th sample
	src := demosource.New(demosource.Options{Length: 12 * time.Second, HogAfter: 6 * time.Second, Exact: true})
	screens := [2]*screen{}
	for i := range screens {
		store, err := newStore(src, scene.Options{}.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewModel(store, scene.Options{})
		if err != nil {
			t.Fatal(err)
		}
		screens[i] = &screen{t, m, store}
	}
	n := 0
	var sum sampler.Changes
	if err := src.Run(t.Context(), func(x *sampler.Sample) {
		screens[0].store.Feed(x)
		if sum.List == nil {
			sum = sampler.Changes{FromNS: x.Changes.FromNS, Fresh: x.Changes.Fresh, List: []sampler.Change{}}
		}
		sum.ToNS, sum.List = x.Changes.ToNS, append(sum.List, x.Changes.List...)
		if n++; n%each == 0 {
			y := x.Clone()
			y.Changes, y.Depth = sum, sampler.StackTick
			screens[1].store.Feed(y)
			sum = sampler.Changes{}
		}
	}); err == nil {
		t.Fatal("the source did not end")
	}
	var of [2]map[store.WaitKey]int64
	for i, s := range screens {
		s.resize(120, 40)
		s.press("0")
		of[i] = make(map[store.WaitKey]int64)
		known := 0
		for _, w := range s.waitsPage().Table.Rows {
			if of[i][w.ID()] = w.LenNS; !w.Exact || w.FromNS() < s.model.OldestNS+1e9 {
				continue
			}
			if known++; known > 10 {
				continue
			}
			if c := s.store.Chain(&w.WaitEvent); c.Err != nil || c.Sum.UnknownNS != 0 {
				t.Errorf("a wait of %d ns: %v, %d ns of it are not known", w.LenNS, c.Err, c.Sum.UnknownNS)
			}
		}
	}
	if screens[0].model.LastNS != screens[1].model.LastNS {
		t.Fatalf("the samples end at %d and %d", screens[0].model.LastNS, screens[1].model.LastNS)
	}
	same, open := 0, 0
	for k, ns := range of[0] {
		if few, ok := of[1][k]; ok {
			if same++; few != ns {
				t.Errorf("the wait %+v took %d ns, with few samples %d", k, ns, few)
			}
			if k.Open {
				open++
			}
		}
	}
	if same < waits.MaxListedWaits/2 || open == 0 {
		t.Errorf("%d waits are listed by both, %d of them go on", same, open)
	}
}
