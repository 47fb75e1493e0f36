package ui

import (
	"fmt"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/page/timeline"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// pressAll presses keys and runs the commands that result from them.
func (s *screen) pressAll(keys ...string) {
	for _, k := range keys {
		for _, cmd := range s.press(k) {
			settle(s.model, cmd)
		}
	}
}

func TestTimelineCursor(t *testing.T) {
	s := hogged(t, 120, 40)
	s.pressAll("3", "down", "down")
	s.sees("3 timeline", "a column", "GVL held by", "GC ", "CPU ", "of a core", "← → move a cursor in time")
	s.pressAll("left", "left", "H")
	s.sees("FROZEN", "▼", "http-1", "Server#start")
	p := s.model.pages[scene.PageTimeline].(*timeline.Page)
	_, states, err := s.store.Moment(p.CursorNS)
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range states {
		if st.Thread == 2 {
			s.sees("http-1 " + gvl.DescribeFit(st, s.store.Dict)[0])
		}
	}
	for range 30 { // the cursor goes past the edge, and the picture moves
		s.pressAll("H")
	}
	if p.CursorNS < p.Span[0] || p.CursorNS >= p.Span[1] || p.CursorNS < s.model.OldestNS {
		t.Errorf("the cursor is at %d, the picture from %d to %d", p.CursorNS, p.Span[0], p.Span[1])
	}
	s.pressAll("esc", "space")
	s.misses("FROZEN", "▼")
}

// TestTimelineZoomsToTheHistory: if the screen shows one second, a column of the timeline is 10 ms. Columns this short
// must be computed from the samples in the history.
func TestTimelineZoomsToTheHistory(t *testing.T) {
	s := hogged(t, 200, 50)
	s.pressAll("3", "left", "+", "+", "+", "+")
	p := s.model.pages[scene.PageTimeline].(*timeline.Page)
	if s.model.WindowNS != int64(time.Second) {
		t.Fatalf("the window is %v", time.Duration(s.model.WindowNS))
	}
	s.sees("10 ms a column")
	if at := p.CursorNS; at < p.Span[0] || at >= p.Span[1] {
		t.Error("zooming lost the cursor")
	}
	var fine, coarse int64
	for _, c := range p.Fine.Timeline.Row(12, p.Span[0], p.Span[1], s.model.Timeline.Cells) {
		fine += c.NS[gvl.Running] + c.NS[gvl.GC]
	}
	s.store.Read(func(r *store.Reading) {
		totals := r.Timeline.Totals(12, p.Span[0], p.Span[1])
		coarse = totals[gvl.Running] + totals[gvl.GC]
	})
	if d := fine - coarse; d < -int64(store.ColumnNS) || d > int64(store.ColumnNS) || fine == 0 {
		t.Errorf("worker-3 held the GVL for %v by the history, %v by the kept columns", time.Duration(fine), time.Duration(coarse))
	}
	s.pressAll("-", "-", "-", "-", "-", "-", "-", "-")
	s.misses("10 ms a column")
}

func TestTimelineOpensGroupsAndThreads(t *testing.T) {
	s := hogged(t, 120, 40)
	s.pressAll("3", "down", "enter")
	s.misses("http-3 ")
	s.pressAll("enter", "down", "enter")
	s.sees("stack now", "http-1")
	s.pressAll("esc")
	s.sees("a column")
}

// BenchmarkHistory measures how long the timeline's commands take to read the history. They run outside of the screen's
// own goroutine.
func BenchmarkHistory(b *testing.B) {
	for _, threads := range []int{50, 500} {
		s := newScreen(b, 200, 50, demosource.Options{Length: 20 * time.Second, HTTP: threads - 7}, scene.Options{})
		at := newestNS(s.store)
		b.Run(fmt.Sprintf("fine=2s/threads=%d", threads), func(b *testing.B) {
			for b.Loop() {
				s.store.Fine(store.FineRange{FromNS: at - 2e9, ToNS: at, ColumnNS: store.FineColumnNS})
			}
		})
		b.Run(fmt.Sprintf("moment/threads=%d", threads), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := s.store.Moment(at - 1e9); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
