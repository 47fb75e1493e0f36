package ui

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// TestNothingNewIsNotDrawn: if no new sample comes, the screen draws one more picture and then stops drawing. This is
// so whether the screen is live or frozen. A sample, a key or the end of the target causes the next picture. While the
// process is idle, the screen draws about one picture a second.
func TestNothingNewIsNotDrawn(t *testing.T) {
	s := newScreen(t, 120, 40, demosource.Options{Length: 5 * time.Second}, scene.Options{})
	m := s.model
	tick := func() bool {
		before := m.drawn
		m.Update(tickMsg(time.Now()))
		return m.drawn != before
	}
	for _, key := range []string{"1", "3", "["} {
		s.press(key)
		tick()
		for range 2 {
			if tick() {
				t.Errorf("after %q a picture is made of nothing new", key)
			}
		}
	}
	s.press("space")
	x := record(t, demosource.Options{Length: 100 * time.Millisecond})[0]
	x.TimeNS = newestNS(s.store) + 1e6
	s.store.Feed(x)
	if !tick() || m.LastNS != x.TimeNS {
		t.Error("a new sample is not drawn")
	}
	if one, two := tick(), tick(); !one || two {
		t.Error("after the last sample there is one picture more, which is complete")
	}
	// In all samples from here on, no thread runs or waits: the process is idle.
	feed := func(afterNS int64, slow bool) bool {
		x.TimeNS, x.Slow = x.TimeNS+afterNS, slow
		s.store.Feed(x)
		return tick()
	}
	for range 3 {
		if feed(250e6, true) {
			t.Error("an idle process is drawn more than once a second")
		}
	}
	if !feed(250e6, true) {
		t.Error("an idle process is not drawn for more than a second")
	}
	stirred := func() bool {
		select {
		case <-s.store.Stirred:
			return true
		default:
			return false
		}
	}
	if stirred(); feed(250e6, true) || !m.idle || stirred() {
		t.Error("an idle process does not let the screen rest")
	}
	if !feed(1e9, true) || !m.idle || !stirred() {
		t.Error("a sample that comes a second after the one before is not drawn at once")
	}
	if !feed(50e6, false) || m.idle || !stirred() {
		t.Error("the first sign of life is not drawn at once")
	}
	if s.press("down"); !stirred() {
		t.Error("what a key asks for is not looked for at once")
	}
	tick()
	s.store.SetState(store.SourceState{Done: true, Ended: true})
	if !tick() {
		t.Error("the end is not shown")
	}
	tick()
	if tick() {
		t.Error("after the end it goes on")
	}
}

// BenchmarkStanding measures how long a tick of the screen takes if there is no new sample.
func BenchmarkStanding(b *testing.B) {
	s := newScreen(b, 200, 50, demosource.Options{Length: 5 * time.Second, HTTP: 43}, scene.Options{})
	b.ReportAllocs()
	for b.Loop() {
		tickOn(s.model)
	}
}
