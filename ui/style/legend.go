package style

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// legendWords are the states in the order of the legend, in words and in short ones.
var legendWords = []struct {
	state       gvl.State
	word, short string
}{
	{gvl.Running, "running", "run"}, {gvl.Waiting, "waiting for the GVL", "wait"}, {gvl.IO, "io", "io"}, {gvl.Lock, "lock", "lock"},
	{gvl.Parked, "parked", "parked"}, {gvl.Sleeping, "sleeping", "sleep"}, {gvl.GC, "gc", "gc"}, {gvl.Native, "native", "native"},
	{gvl.Stalled, "stalled", "stalled"},
}

// DrawLegend writes what the letters and colours of the states are, in one line: in words, or in short ones where those have no room,
// and as many of them as have.
func DrawLegend(a canvas.Area, t *Theme, ascii bool) {
	whole := 1
	for _, l := range legendWords {
		whole += 2 + canvas.Width(l.word) + 2
	}
	x := 1
	for _, l := range legendWords {
		word := l.word
		if whole-2 > a.W {
			word = l.short
		}
		if x+2+canvas.Width(word) > a.W {
			return
		}
		c := gvl.Cell{Dominant: l.state, Share: 1, SpanNS: 1}
		c.NS[l.state] = 1
		r, st := t.StateCell(&c, ascii, nil)
		a.Rune(x, 0, r, st)
		x = a.Put(x+2, 0, word, t.Dimmed()) + 2
	}
}
