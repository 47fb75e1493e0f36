package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/widget"
)

func TestPlaying(t *testing.T) {
	s := hogged(t, 120, 40)
	now := time.Unix(1000, 0)
	tick := func(d time.Duration) {
		now = now.Add(d)
		s.model.Update(tickMsg(now))
	}
	s.press("p")
	s.sees("▶ PLAYING ×1", strings.Repeat("░", widget.PlayedColumns))
	tick(0)
	from := s.model.AtNS
	if from > s.model.OldestNS+2*store.ColumnNS {
		t.Errorf("it begins %d ns after the beginning", from-s.model.OldestNS)
	}
	for range 4 {
		tick(250 * time.Millisecond)
	}
	if got := s.model.AtNS - from; got != int64(time.Second) {
		t.Errorf("a second moves it by %d ns", got)
	}
	s.press("+", "+")
	s.sees("×5")
	tick(time.Second)
	if got := s.model.AtNS - from; got != int64(6*time.Second) {
		t.Errorf("another second at five times: %d ns", got)
	}
	tick(time.Hour)    // the terminal stood still
	tick(-time.Minute) // the clock was set back
	if got := s.model.AtNS - from; got != int64(11*time.Second) {
		t.Errorf("%d ns", got)
	}
	s.press("p")
	at := s.model.AtNS
	s.sees("FROZEN")
	tick(time.Second)
	if s.model.AtNS != at {
		t.Error("it plays on")
	}
	s.press("p")
	for range 20 {
		tick(time.Second)
	}
	s.sees("LIVE")
	s.misses("PLAYING")
	s.press("p", "space")
	tick(time.Second)
	if s.model.Playing || s.model.Frozen {
		t.Error("space does not lead back to now")
	}
}

func TestSeeking(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press(".")
	s.sees("LIVE")
	s.press(",", ",", ",")
	if got := float64(s.model.LastNS-s.model.AtNS) / 1e9; got < 8.9 || got > 9.1 {
		t.Errorf("three tenths of 30 s: %g s", got)
	}
	for range 20 {
		s.press(",")
	}
	if s.model.AtNS != s.model.OldestNS+store.ColumnNS {
		t.Error("not at the beginning")
	}
	for range 11 {
		s.press(".")
	}
	s.sees("LIVE")
}

// TestReadingARecordingShowsHowFar: while ddtop reads a recording, a bar shows how much of the recorded time it has
// read.
func TestReadingARecordingShowsHowFar(t *testing.T) {
	r, err := recording.Open("../screenshots/recordings/hog.ddtop")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	store, err := newStore(r, scene.Options{History: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, scene.Options{Source: r, Replay: true}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	s := &screen{t, m, store}
	first, last := r.Span()
	if err := r.Range(first, first+(last-first)/2, store.Feed); err != nil {
		t.Fatal(err)
	}
	s.resize(120, 40)
	s.sees("REPLAY reading ██████░░░░░░ 50 %")
	store.Run(t.Context())
	m.Refresh()
	s.sees("▶ REPLAY")
	s.misses("reading")
}
