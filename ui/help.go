package ui

import (
	"fmt"

	"charm.land/lipgloss/v2"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// stateHelp explains the states in the order of the legend.
var stateHelp = []struct {
	state gvl.State
	text  string
}{
	{gvl.Running, "runs Ruby: it holds the GVL, the lock that only one thread can hold"},
	{gvl.Waiting, "wants to run Ruby and waits for the GVL"},
	{gvl.Stalled, "holds the GVL and sleeps in the kernel: all others stand still"},
	{gvl.GC, "holds the GVL and collects garbage"},
	{gvl.Native, "on a CPU without the GVL (C code)"},
	{gvl.IO, "waits for the outside: a database, a socket, a file, a child process"},
	{gvl.Lock, "waits for a Mutex or Monitor of the program"},
	{gvl.Parked, "waits for work or for another thread: nothing wrong"},
	{gvl.Sleeping, "in sleep"},
	{gvl.Unknown, "could not be told"},
}

// drawHelp draws all keys and the legend over the screen, in as many columns as fit, and last what else there is to tell;
// scroll skips lines on a small terminal. It returns how many lines there are beyond the last one drawn.
func drawHelp(a canvas.Area, t *Theme, maps []keyMap, last keyMap, scroll int, ascii bool) (more int) {
	type line func(a canvas.Area)
	var lines []line
	head := func(s string) {
		lines = append(lines, func(a canvas.Area) { a.Put(0, 0, s, canvas.Style{FG: t.Accent, Attr: canvas.Bold}) })
	}
	keys := func(m *keyMap) {
		head(m.title)
		for _, b := range m.bindings {
			if b.help == "" {
				continue
			}
			lines = append(lines, func(a canvas.Area) {
				a.Put(2, 0, b.show, t.bold())
				a.Put(13, 0, canvas.Cut(b.help, a.W-13), t.text())
			})
		}
		lines = append(lines, func(canvas.Area) {})
	}
	for i := range maps {
		keys(&maps[i])
	}
	head("timeline: a column shows the state with the largest share of its time")
	for _, s := range stateHelp {
		lines = append(lines, func(a canvas.Area) {
			c := gvl.Cell{Dominant: s.state, Share: 1, SpanNS: 1}
			c.NS[s.state] = 1
			r, st := t.stateCell(&c, ascii)
			a.Rune(2, 0, r, st)
			a.Rune(3, 0, r, st)
			a.Put(5, 0, s.state.String(), canvas.Style{FG: t.readable(t.States[s.state]), Attr: canvas.Bold})
			a.Put(15, 0, canvas.Cut(s.text, a.W-15), t.text())
		})
	}
	lines = append(lines, func(a canvas.Area) {
		c := gvl.Cell{Dominant: gvl.Running, Share: 1, SpanNS: 1, Waited: true}
		c.NS[gvl.Running], c.NS[gvl.Waiting] = 3, 1
		r, st := t.stateCell(&c, ascii)
		a.Rune(2, 0, r, st)
		c.Dominant = gvl.IO
		r, st = t.stateCell(&c, ascii)
		a.Rune(3, 0, r, st)
		a.Put(5, 0, canvas.Cut("a cut block or an underlined letter: in that column it also waited for the GVL", a.W-5), t.text())
	}, func(a canvas.Area) {
		a.Put(2, 0, "12", canvas.Style{FG: t.Accent, Attr: canvas.Bold})
		a.Put(5, 0, canvas.Cut("in the lane of the GVL, and beside names: which thread holds it", a.W-5), t.text())
	}, func(canvas.Area) {})
	head("colours of the flamegraph")
	lines = append(lines, func(a canvas.Area) {
		x := 2
		for p := range fromThread {
			x = a.Put(x, 0, fmt.Sprintf(" %s ", p), on(t.Flame[p])) + 1
		}
		a.Put(x+1, 0, canvas.Cut("the program, gems, Ruby's library, Ruby itself and C functions", a.W-x-1), t.text())
	}, func(canvas.Area) {})
	keys(&last)

	a.Fill(' ', canvas.Style{BG: t.Background})
	frame(a, t, " keys and signs ")
	in := a.Sub(2, 1, a.W-4, a.H-2)
	scroll = max(0, min(scroll, len(lines)-in.H))
	for y := range in.H {
		if scroll+y < len(lines) {
			lines[scroll+y](in.Row(y))
		}
	}
	more = max(0, len(lines)-scroll-in.H)
	foot := " esc closes "
	if more > 0 || scroll > 0 {
		foot = " ↑ ↓ scrolls · esc closes "
	}
	a.Put(a.W-2-canvas.Width(foot), a.H-1, foot, t.dim())
	return more
}

// frame draws a box around the area, with Lip Gloss's rounded border.
func frame(a canvas.Area, t *Theme, title string) {
	b := lipgloss.RoundedBorder()
	st := t.line()
	for x := range a.W {
		a.Put(x, 0, b.Top, st)
		a.Put(x, a.H-1, b.Bottom, st)
	}
	for y := range a.H {
		a.Put(0, y, b.Left, st)
		a.Put(a.W-1, y, b.Right, st)
	}
	a.Put(0, 0, b.TopLeft, st)
	a.Put(a.W-1, 0, b.TopRight, st)
	a.Put(0, a.H-1, b.BottomLeft, st)
	a.Put(a.W-1, a.H-1, b.BottomRight, st)
	a.Put(2, 0, title, t.bold())
}
