package ui

import (
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// stateHelp are the states of threads, in the order in which the legend explains them.
var stateHelp = [...]gvl.State{gvl.Running, gvl.Waiting, gvl.Stalled, gvl.GC, gvl.Native, gvl.IO, gvl.Lock, gvl.Parked, gvl.Sleeping, gvl.Unknown}

// twoHelpColumns is the least width of a screen, in cells, on which the help has two columns.
const twoHelpColumns = 110

// drawHelp draws the help over the screen: the legend and all keys, in two columns if there is room. The parameter maps
// has the keys of the view, and the parameter last has the keys that come at the end. scroll is the number of lines to
// skip at the top. drawHelp returns the largest useful value of scroll.
func drawHelp(a canvas.Area, t *style.Theme, maps []scene.KeyMap, last scene.KeyMap, scroll int, ascii bool) int {
	w := a.W - widget.OverlayMargin
	two := a.W >= twoHelpColumns
	if two {
		w = (w - 2) / 2
	}
	legend := legendLines(w, t, ascii)
	sections := make([][]widget.OverlayLine, len(maps))
	for i := range maps {
		sections[i] = keyLines(&maps[i], w, t)
	}
	reads := keyLines(&last, w, t)
	if !two {
		return widget.DrawOverlay(a, t, " keys and signs ", slices.Concat(legend, slices.Concat(sections...), reads), scroll)
	}
	// The keys are in the left column, and the legend is in the right one. If all keys were in the left column, it
	// could become longer than the right one. So the last sections of keys are below the legend.
	var left, right []widget.OverlayLine
	for n := range len(sections) + 1 {
		l, r := slices.Concat(sections[:n]...), slices.Concat(legend, slices.Concat(sections[n:]...), reads)
		if n == 0 || max(len(l), len(r)) <= max(len(left), len(right)) {
			left, right = l, r
		}
	}
	lines := make([]widget.OverlayLine, max(len(left), len(right)))
	for i := range lines {
		lines[i] = func(a canvas.Area) {
			if i < len(left) {
				left[i](a.Sub(0, 0, w, 1))
			}
			if i < len(right) {
				right[i](a.Sub(w+2, 0, w, 1))
			}
		}
	}
	return widget.DrawOverlay(a, t, " keys and signs ", lines, scroll)
}

// helpText breaks a text into as many lines as needed. All lines begin at column x. The function in the parameter
// before draws the part of the first line to the left of the text, such as a key.
func helpText(text string, x, w int, t *style.Theme, before func(a canvas.Area)) []widget.OverlayLine {
	const most = 4
	broken, _ := style.Wrap(text, w-x, most)
	out := make([]widget.OverlayLine, len(broken))
	for i, s := range broken {
		out[i] = func(a canvas.Area) {
			if i == 0 {
				before(a)
			}
			a.Put(x, 0, s, t.Plain())
		}
	}
	return out
}

func helpHead(s string, t *style.Theme) widget.OverlayLine {
	return func(a canvas.Area) { a.Put(0, 0, s, canvas.Style{FG: t.Accent, Attr: canvas.Bold}) }
}

// keyLines explains the keys of a view.
func keyLines(k *scene.KeyMap, w int, t *style.Theme) []widget.OverlayLine {
	const textX = 12
	out := []widget.OverlayLine{helpHead(k.Title, t)}
	for _, b := range k.Bindings {
		if b.Help != "" {
			out = append(out, helpText(b.Help, textX, w, t, func(a canvas.Area) { a.Put(1, 0, b.Show, t.Bold()) })...)
		}
	}
	return append(out, func(canvas.Area) {})
}

// legendLines explains letters and colours.
func legendLines(w int, t *style.Theme, ascii bool) []widget.OverlayLine {
	const textX = 14
	out := []widget.OverlayLine{helpHead("timeline: a column shows its longest state", t)}
	for _, s := range stateHelp {
		out = append(out, helpText(s.Meaning(), textX, w, t, func(a canvas.Area) {
			c := timeline.Cell{Dominant: s, Share: 1, SpanNS: 1}
			c.NS[s] = 1
			r, st := t.StateCell(&c, ascii, nil)
			a.Rune(1, 0, r, st)
			a.Rune(2, 0, r, st)
			a.Put(4, 0, s.String(), canvas.Style{FG: t.Readable(t.States[s]), Attr: canvas.Bold})
		})...)
	}
	out = append(out, helpText("a cut block (it ran) or an underlined letter: in this column the thread also waited for the GVL", 4, w, t, func(a canvas.Area) {
		c := timeline.Cell{Dominant: gvl.Running, Share: 1, SpanNS: 1}
		c.NS[gvl.Running], c.NS[gvl.Waiting] = 3, 1
		r, st := t.StateCell(&c, ascii, nil)
		a.Rune(1, 0, r, st)
		c.Dominant = gvl.IO
		r, st = t.StateCell(&c, ascii, nil)
		a.Rune(2, 0, r, st)
	})...)
	out = append(out, helpText("a line that is not exact: compiled code has only the first line of the method", 4, w, t, func(a canvas.Area) {
		a.Put(0, 0, ":9?", t.Bold())
	})...)
	out = append(out, helpText("before a name: the sign of this thread in the row of the GVL, while it holds the GVL", 4, w, t, func(a canvas.Area) {
		a.Put(1, 0, "12", canvas.Style{FG: t.Accent, Attr: canvas.Bold})
	})...)
	out = append(out, helpText("as run, wait and io: the share of its time that a thread spent in this state (native)", 7, w, t, func(a canvas.Area) {
		a.Put(1, 0, "nativ", t.Bold())
	})...)
	out = append(out, helpText("the length is at most this, because the thread may have moved unseen. ≥: it is at least this", 4, w, t, func(a canvas.Area) {
		a.Put(1, 0, "≤", t.Bold())
	})...)
	out = append(out, helpText("the share of all waiting for the GVL that this thread causes", 7, w, t, func(a canvas.Area) {
		a.Put(1, 0, "blame", canvas.Style{FG: t.Readable(t.States[gvl.Waiting]), Attr: canvas.Bold})
	})...)
	out = append(out, func(canvas.Area) {}, helpHead("flamegraph: coloured by state; o: by origin", t), func(a canvas.Area) {
		x := 1
		for p := sampler.OriginApp; p <= sampler.OriginCore; p++ {
			x = a.Put(x, 0, fmt.Sprintf(" %s ", p), style.On(t.Flame[p])) + 1
		}
	})
	out = append(out, helpText("your program, gems, Ruby's library, Ruby and C functions. Frames of your program are bold", 1, w, t, func(canvas.Area) {})...)
	return append(out, func(canvas.Area) {})
}
