package scene

import (
	"slices"
	"time"

	"github.com/ddtop/ddtop/ui/store"
)

// Span is the part of the history that the screen shows. It is WindowNS long and ends at AtNS.
type Span struct {
	WindowNS int64
	// Frozen is true if the screen stays at the moment AtNS. If it is false, the picture is live: AtNS is the time of
	// the newest sample.
	Frozen bool
	AtNS   int64
	// liveNS is the length that the window had before Show changed it. The window gets this length back when the
	// picture becomes live again. liveNS is zero if Show has not changed the window.
	liveNS int64
	// OldestNS and LastNS are the times of the oldest and the newest data in the history. They are 0 before the first
	// sample. KeepNS is the greatest length of the history.
	OldestNS, LastNS, KeepNS int64

	// Playing is true while the history is played: AtNS advances by itself, at speed times real time. A speed of zero
	// means real time.
	Playing bool
	speed   float64
	played  time.Time // when the shown moment last advanced; zero before the first time
}

// Windows are the lengths of the time span that the keys { and } choose from.
var Windows = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour}

// speeds are the speeds of playing that the keys + and - choose from, as multiples of real time.
var speeds = []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 30}

// seekParts is the number of steps in the whole history. The keys , and . move by one step.
const seekParts = 10

// maxPlayStep limits how far the history is played from one picture to the next, in real time. Without it, the picture
// would jump after ddtop was stopped for a while.
const maxPlayStep = time.Second

// Freeze freezes a live picture at the newest sample.
func (s *Span) Freeze() {
	if !s.Frozen {
		s.Frozen, s.AtNS = true, s.LastNS
	}
}

// goLive makes the picture live again. If Show has changed the length of the window, the window gets its earlier length
// back.
func (s *Span) goLive() {
	if s.Frozen = false; s.liveNS != 0 {
		s.WindowNS, s.liveNS = s.liveNS, 0
	}
}

// ToggleFreeze freezes the picture on the screen, or makes it live again.
func (s *Span) ToggleFreeze() {
	if s.Frozen {
		s.goLive()
	} else {
		s.Frozen = true
	}
}

// Bounded returns the moment nearest to ns that the screen can show.
func (s *Span) Bounded(ns int64) int64 { return max(s.OldestNS+store.ColumnNS, min(ns, s.LastNS)) }

// AxisNS returns the length of the time axis. This is the length of the window or, if the history before the moment on
// the screen is shorter, the length of this history. A short history is rounded up, so that the axis does not change
// with every picture. Up to 5 s it is rounded to half seconds. A longer history is rounded to whole seconds, or to a
// thirtieth of the window if this is longer.
func (s *Span) AxisNS() int64 {
	const secondNS, parts, first = int64(1e9), 30, int64(5e9)
	known, step := s.AtNS-s.OldestNS, max(secondNS, s.WindowNS/parts)
	if known < first {
		step = secondNS / 2
	}
	return min(max((known+step-1)/step*step, step), s.WindowNS)
}

// StepNS returns how far one press of the keys [ and ] moves the moment on the screen, in ns.
func (s *Span) StepNS() int64 { return max(s.WindowNS/30, store.ColumnNS) }

// SeekNS returns how far one press of the keys , and . moves the moment on the screen, in ns.
func (s *Span) SeekNS() int64 { return max((s.LastNS-s.OldestNS)/seekParts, store.ColumnNS) }

// Move moves the moment on the screen by ns. If the moment would then be after the newest sample, the picture becomes
// live again.
func (s *Span) Move(ns int64) {
	if s.LastNS == 0 || !s.Frozen && ns > 0 {
		return
	}
	s.Freeze()
	if s.AtNS = max(s.AtNS+ns, s.OldestNS+store.ColumnNS); s.AtNS >= s.LastNS {
		s.goLive()
	}
}

// Zoom makes the window (the time on the screen) longer (+1) or shorter (-1).
func (s *Span) Zoom(d int) {
	var list []int64
	for _, w := range Windows {
		if int64(w) <= s.KeepNS {
			list = append(list, int64(w))
		}
	}
	i, exact := slices.BinarySearch(list, s.WindowNS)
	switch {
	case d > 0 && exact:
		i++
	case d < 0:
		i--
	}
	if i >= 0 && i < len(list) {
		s.WindowNS = list[i]
	}
}

// Show freezes the picture so that it shows the time from fromNS to toNS.
func (s *Span) Show(fromNS, toNS int64) {
	if s.liveNS == 0 {
		s.liveNS = s.WindowNS
	}
	s.Frozen, s.AtNS, s.WindowNS = true, min(toNS, s.LastNS), max(toNS-fromNS, store.ColumnNS)
}

// TogglePlay begins or ends playing the history. Playing begins at the moment on the screen. If this is the end of the
// history, playing begins at its beginning.
func (s *Span) TogglePlay() {
	if s.LastNS == 0 {
		return
	}
	s.Playing, s.played = !s.Playing, time.Time{}
	if s.Playing && (!s.Frozen || s.AtNS >= s.LastNS) {
		s.Frozen, s.AtNS = true, s.OldestNS+store.ColumnNS
	}
}

// Factor returns the speed of playing, as a multiple of real time.
func (s *Span) Factor() float64 {
	if s.speed == 0 {
		return 1
	}
	return s.speed
}

// ChangeSpeed plays faster (+1) or slower (-1).
func (s *Span) ChangeSpeed(d int) {
	i := slices.Index(speeds, s.Factor()) + d
	s.speed = speeds[max(0, min(i, len(speeds)-1))]
}

// PlayOn moves the shown moment forward by the time that has passed since the last picture. It reports whether the
// moment has changed. Playing stops at the last moment of a recording, or at the newest sample of a live process.
func (s *Span) PlayOn(now time.Time) bool {
	s.Playing = s.Playing && s.Frozen // playing ends when the key space or ] has made the picture live again
	if !s.Playing {
		return false
	}
	since := now.Sub(s.played)
	if s.played.IsZero() || since < 0 {
		since = 0
	}
	s.played = now
	s.AtNS += int64(float64(min(since, maxPlayStep)) * s.Factor())
	if s.AtNS >= s.LastNS {
		s.AtNS, s.Playing = s.LastNS, false
		s.goLive()
	}
	return true
}
