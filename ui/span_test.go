package ui

import (
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/ui/store"
)

// TestSpan: the moment shown stays within the history, and the way back to now leads to the window of before.
func TestSpan(t *testing.T) {
	const sec = int64(time.Second)
	s := span{windowNS: 30 * sec, keepNS: 60 * sec, atNS: 100 * sec}
	if s.move(-1); s.frozen {
		t.Error("frozen before the first sample")
	}
	s.oldestNS, s.lastNS = 40*sec, 100*sec
	if s.move(+1); s.frozen {
		t.Error("there is nothing after now")
	}
	if s.move(-1000 * sec); !s.frozen || s.atNS != 40*sec+store.ColumnNS {
		t.Errorf("before the history: frozen %v at %d", s.frozen, s.atNS)
	}
	s.show(50*sec, 52*sec)
	if s.atNS != 52*sec || s.windowNS != 2*sec {
		t.Errorf("a part of it: %d ns until %d", s.windowNS, s.atNS)
	}
	if s.show(50*sec, 51*sec); s.liveNS != 30*sec {
		t.Errorf("a part of a part leads back to %d", s.liveNS)
	}
	if s.move(1000 * sec); s.frozen || s.windowNS != 30*sec || s.liveNS != 0 {
		t.Errorf("after the history: frozen %v, window %d", s.frozen, s.windowNS)
	}
	for range windows {
		s.zoom(+1)
	}
	if s.windowNS != s.keepNS {
		t.Errorf("more than is kept: %d", s.windowNS)
	}
}

func TestPlaying(t *testing.T) {
	s := hogged(t, 120, 40)
	now := time.Unix(1000, 0)
	tick := func(d time.Duration) {
		now = now.Add(d)
		s.model.Update(tickMsg(now))
	}
	s.press("p")
	s.sees("▶ PLAYING ×1", strings.Repeat("░", playedColumns))
	tick(0)
	from := s.model.atNS
	if from > s.model.oldestNS+2*store.ColumnNS {
		t.Errorf("it begins %d ns after the beginning", from-s.model.oldestNS)
	}
	for range 4 {
		tick(250 * time.Millisecond)
	}
	if got := s.model.atNS - from; got != int64(time.Second) {
		t.Errorf("a second moves it by %d ns", got)
	}
	s.press("+", "+")
	s.sees("×5")
	tick(time.Second)
	if got := s.model.atNS - from; got != int64(6*time.Second) {
		t.Errorf("another second at five times: %d ns", got)
	}
	tick(time.Hour)    // a terminal that stood still
	tick(-time.Minute) // a clock that was set back
	if got := s.model.atNS - from; got != int64(11*time.Second) {
		t.Errorf("%d ns", got)
	}
	s.press("p")
	at := s.model.atNS
	s.sees("FROZEN")
	tick(time.Second)
	if s.model.atNS != at {
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
	if s.model.playing || s.model.frozen {
		t.Error("space does not lead back to now")
	}
}

func TestSeeking(t *testing.T) {
	s := hogged(t, 120, 40)
	s.press(".")
	s.sees("LIVE")
	s.press(",", ",", ",")
	if got := float64(s.model.lastNS-s.model.atNS) / 1e9; got < 8.9 || got > 9.1 {
		t.Errorf("three tenths of 30 s: %g s", got)
	}
	for range 20 {
		s.press(",")
	}
	if s.model.atNS != s.model.oldestNS+store.ColumnNS {
		t.Error("not at the beginning")
	}
	for range 11 {
		s.press(".")
	}
	s.sees("LIVE")
}

// TestReadingARecordingShowsHowFar: the bar is where the reading is in the recording's time.
func TestReadingARecordingShowsHowFar(t *testing.T) {
	r, err := recording.Open("../screenshots/recordings/hog.ddtop")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	store, err := newStore(r, Options{History: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(store, Options{Source: r, Replay: true}.withDefaults())
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
