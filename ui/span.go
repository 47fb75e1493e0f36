package ui

import (
	"slices"
	"time"

	"github.com/ddtop/ddtop/ui/store"
)

// span is the stretch of time that is shown: windowNS until atNS.
type span struct {
	windowNS int64
	// frozen: the picture ends at atNS. Otherwise it follows the newest sample.
	frozen bool
	atNS   int64
	// liveNS is the window to return to with the picture of now, once a part of it was selected; 0: none was.
	liveNS int64
	// oldestNS and lastNS are the edges of the history, 0 before the first sample; keepNS is how long it can get.
	oldestNS, lastNS, keepNS int64

	// playing: the moment shown moves on as time goes by, speed times as fast (0: once).
	playing bool
	speed   float64
	played  time.Time // when it moved last; zero before the first time
}

// windows are the stretches of time that { and } go through.
var windows = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// speeds are those that + and - go through.
var speeds = []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 30}

// seekParts: , and . move by one of this many parts of the history.
const seekParts = 10

// maxPlayStep bounds how far one picture moves in real time, so that a terminal that stood still does not make it jump.
const maxPlayStep = time.Second

// freeze keeps the picture of now.
func (s *span) freeze() {
	if !s.frozen {
		s.frozen, s.atNS = true, s.lastNS
	}
}

// goLive returns to the picture of now, and to the window from before a part of it was selected.
func (s *span) goLive() {
	if s.frozen = false; s.liveNS != 0 {
		s.windowNS, s.liveNS = s.liveNS, 0
	}
}

// toggleFreeze freezes what is on the screen, or returns to the picture of now.
func (s *span) toggleFreeze() {
	if s.frozen {
		s.goLive()
	} else {
		s.frozen = true
	}
}

// bounded is the moment nearest to ns that can be shown.
func (s *span) bounded(ns int64) int64 { return max(s.oldestNS+store.ColumnNS, min(ns, s.lastNS)) }

// axisNS is the stretch of time that a time axis covers: the window, or as much of it as is known, in whole seconds (halves of one
// at first), so that it does not change with every picture. A longer window grows in steps of a thirtieth of it.
func (s *span) axisNS() int64 {
	const secondNS, parts, first = int64(1e9), 30, int64(5e9)
	known, step := s.atNS-s.oldestNS, max(secondNS, s.windowNS/parts)
	if known < first {
		step = secondNS / 2
	}
	return min(max((known+step-1)/step*step, step), s.windowNS)
}

// stepNS is how far one key press moves in time.
func (s *span) stepNS() int64 { return max(s.windowNS/30, store.ColumnNS) }

// seekNS is how far , and . move.
func (s *span) seekNS() int64 { return max((s.lastNS-s.oldestNS)/seekParts, store.ColumnNS) }

// move moves the moment that is shown; past the newest sample the picture is live again.
func (s *span) move(ns int64) {
	if s.lastNS == 0 || !s.frozen && ns > 0 {
		return
	}
	s.freeze()
	if s.atNS = max(s.atNS+ns, s.oldestNS+store.ColumnNS); s.atNS >= s.lastNS {
		s.goLive()
	}
}

// zoom makes the window longer (+1) or shorter (-1).
func (s *span) zoom(d int) {
	var list []int64
	for _, w := range windows {
		if int64(w) <= s.keepNS {
			list = append(list, int64(w))
		}
	}
	i, exact := slices.BinarySearch(list, s.windowNS)
	switch {
	case d > 0 && exact:
		i++
	case d < 0:
		i--
	}
	if i >= 0 && i < len(list) {
		s.windowNS = list[i]
	}
}

// show freezes the picture at a stretch of time.
func (s *span) show(fromNS, toNS int64) {
	if s.liveNS == 0 {
		s.liveNS = s.windowNS
	}
	s.frozen, s.atNS, s.windowNS = true, min(toNS, s.lastNS), max(toNS-fromNS, store.ColumnNS)
}

// togglePlay plays from the moment that is shown, or from the beginning where that is the end.
func (s *span) togglePlay() {
	if s.lastNS == 0 {
		return
	}
	s.playing, s.played = !s.playing, time.Time{}
	if s.playing && (!s.frozen || s.atNS >= s.lastNS) {
		s.frozen, s.atNS = true, s.oldestNS+store.ColumnNS
	}
}

// factor is how much faster than real time the history is played.
func (s *span) factor() float64 {
	if s.speed == 0 {
		return 1
	}
	return s.speed
}

// changeSpeed plays faster (+1) or slower (-1).
func (s *span) changeSpeed(d int) {
	i := slices.Index(speeds, s.factor()) + d
	s.speed = speeds[max(0, min(i, len(speeds)-1))]
}

// playOn moves the moment that is shown by the time since the last picture and reports whether it did. At the end it stops: of a
// recording at its last moment, of a process that is watched with the picture of now.
func (s *span) playOn(now time.Time) bool {
	s.playing = s.playing && s.frozen // space or ] has led back to now
	if !s.playing {
		return false
	}
	since := now.Sub(s.played)
	if s.played.IsZero() || since < 0 {
		since = 0
	}
	s.played = now
	s.atNS += int64(float64(min(since, maxPlayStep)) * s.factor())
	if s.atNS >= s.lastNS {
		s.atNS, s.playing = s.lastNS, false
		s.goLive()
	}
	return true
}
