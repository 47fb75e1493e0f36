package ui

import (
	"slices"
	"strings"
	"time"
)

// speeds are those that + and - go through.
var speeds = []float64{0.1, 0.25, 0.5, 1, 2, 5, 10, 30}

// seekParts: < and > move by one of this many parts of the history.
const seekParts = 10

// maxPlayStep bounds how far one picture moves in real time, so that a terminal that stood still does not make it jump.
const maxPlayStep = time.Second

// player moves the moment that is shown as time goes by.
type player struct {
	playing bool
	speed   float64
	last    time.Time // of the last picture; zero before the first
}

// togglePlay plays from the moment that is shown, or from the beginning where that is the end.
func (m *Model) togglePlay() {
	if m.lastNS == 0 {
		return
	}
	m.player.playing = !m.player.playing
	m.player.last = time.Time{}
	if !m.player.playing {
		return
	}
	if !m.frozen || m.atNS >= m.lastNS {
		m.frozen, m.atNS = true, m.oldestNS+columnNS
	}
	m.refresh()
}

// changeSpeed plays faster (+1) or slower (-1).
func (m *Model) changeSpeed(d int) {
	i := slices.Index(speeds, m.speed()) + d
	m.player.speed = speeds[max(0, min(i, len(speeds)-1))]
}

// speed is how much faster than real time the history is played.
func (m *Model) speed() float64 {
	if m.player.speed == 0 {
		return 1
	}
	return m.player.speed
}

// playOn moves the moment that is shown by the time since the last picture. At the end it stops: of a recording at its
// last moment, of a process that is watched with the picture of now.
func (m *Model) playOn(now time.Time) {
	p := &m.player
	if p.playing && !m.frozen { // space or ] has led back to now
		p.playing = false
	}
	if !p.playing {
		return
	}
	since := now.Sub(p.last)
	if p.last.IsZero() || since < 0 {
		since = 0
	}
	p.last = now
	m.atNS += int64(float64(min(since, maxPlayStep)) * m.speed())
	if m.atNS >= m.lastNS {
		m.atNS, p.playing, m.frozen = m.lastNS, false, false
		m.leaveRange()
	}
	m.refresh()
}

// seek moves by a tenth of the history.
func (m *Model) seek(d int64) {
	if m.lastNS == 0 || !m.frozen && d > 0 {
		return
	}
	if !m.frozen {
		m.frozen, m.atNS = true, m.lastNS
	}
	m.atNS = max(m.atNS+d*max((m.lastNS-m.oldestNS)/seekParts, columnNS), m.oldestNS+columnNS)
	if m.atNS >= m.lastNS {
		m.frozen = false
		m.leaveRange()
	}
	m.refresh()
}

// loaded returns which share of a recording has been read; 1 where nothing is being read in.
func (m *Model) loaded() float64 {
	r, ok := m.store.src.(interface {
		Span() (firstNS, lastNS int64)
	})
	if !m.opt.Replay || m.source.Done || !ok {
		return 1
	}
	first, last := r.Span()
	return min(max(share(m.lastNS-first, last-first), 0), 1)
}

// bar draws a share (0 to 1) in w columns.
func bar(share float64, w int) string {
	n := min(max(int(share*float64(w)+0.5), 0), w)
	return strings.Repeat("█", n) + strings.Repeat("░", w-n)
}
