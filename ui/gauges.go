package ui

import (
	"fmt"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// gauge is one figure of the head: a word, its value and, where there is room, its recent past.
type gauge struct {
	label, value string
	style        canvas.Style
	spark        []float64
	top          float64
	sparkStyle   canvas.Style
	// priority decides what gives way first on a narrow terminal: the larger number. Its spark gives way at
	// priority+sparkLater.
	priority int
	// bar: a line is before it.
	bar bool
}

const sparkLater = 10

func (f *figures) gauges(t *style.Theme, s *served) []gauge {
	waitColor := t.Readable(t.States[gvl.Waiting])
	heldStyle, waitStyle := t.Bold(), t.Bold()
	if f.held >= 0.85 {
		heldStyle.FG = t.Warn
	}
	if f.waiting >= 0.5 {
		waitStyle.FG = waitColor
	}
	gs := []gauge{
		{label: "GVL", value: units.Percent(f.held), style: heldStyle, spark: f.heldSpark, top: 1,
			sparkStyle: canvas.Style{FG: t.Readable(t.States[gvl.Running])}, priority: 0},
		{label: "waiting", value: fmt.Sprintf("%.1f", f.waiting), style: waitStyle, spark: f.waitSpark, top: maxOf(f.waitSpark, 1),
			sparkStyle: canvas.Style{FG: waitColor}, priority: 1},
		{label: "wait p99", value: f.waitInWords(store.WaitP99), style: t.Plain(), priority: 4},
		{label: "CPU", value: units.Percent(f.cpu), style: t.Bold(), spark: f.cpuSpark, top: maxOf(f.cpuSpark, 1),
			sparkStyle: t.Dimmed(), priority: 2, bar: true},
	}
	if f.throttled > 0 {
		gs = append(gs, gauge{label: "throttled", value: units.Percent(f.throttled), style: canvas.Style{FG: t.Warn, Attr: canvas.Bold}, priority: 3})
	}
	if f.gcKnown {
		style := t.Bold()
		if f.gc >= 0.1 {
			style.FG = t.Readable(t.States[gvl.GC])
		}
		gs = append(gs, gauge{label: "GC", value: units.Percent(f.gc), style: style, spark: f.gcSpark, top: maxOf(f.gcSpark, 0.2),
			sparkStyle: canvas.Style{FG: t.Readable(t.States[gvl.GC])}, priority: 5, bar: true},
			gauge{value: fmt.Sprintf("%d minor %d major", f.minor, f.major), style: t.Dimmed(), priority: 8})
	}
	if f.rss > 0 {
		gs = append(gs, gauge{label: "RSS", value: units.Bytes(f.rss), style: t.Bold(), spark: f.rssSpark, top: maxOf(f.rssSpark, 1),
			sparkStyle: t.Dimmed(), priority: 6, bar: true})
	}
	if s.seen {
		gs = append(gs, gauge{label: "requests", value: units.Count(int64(len(s.running))), style: t.Bold(), priority: 4, bar: true},
			gauge{value: perSecondText(s.perSecond) + "/s", style: t.Bold(), priority: 4})
		if n, _ := s.lengths.Count(); n > 0 {
			gs = append(gs, gauge{label: "p95", value: s.length(.95), style: t.Bold(), priority: 7})
		}
	}
	return gs
}

func maxOf(v []float64, least float64) float64 {
	for _, x := range v {
		least = max(least, x)
	}
	return least
}

// width is what a gauge takes at a level of detail: those of lower priority than the level only.
func (g *gauge) width(level int) int {
	if g.priority > level {
		return 0
	}
	w := canvas.Width(g.value) + 2
	if g.label != "" {
		w += canvas.Width(g.label) + 1
	}
	if g.bar {
		w += 2
	}
	if g.sparks(level) {
		w += len(g.spark) + 1
	}
	return w
}

func (g *gauge) sparks(level int) bool {
	return len(g.spark) > 0 && g.priority+sparkLater <= level
}

func drawGauges(a canvas.Area, f *figures, s *served, t *style.Theme) {
	gs := f.gauges(t, s)
	level := 2 * sparkLater
	for ; level > 0; level-- {
		w := 1
		for i := range gs {
			w += gs[i].width(level)
		}
		if w-2 <= a.W-1 {
			break
		}
	}
	x := 1
	for i := range gs {
		g := &gs[i]
		if g.width(level) == 0 {
			continue
		}
		if g.bar && x > 1 {
			x = a.Put(x, 0, "│ ", t.Rule())
		}
		if g.label != "" {
			x = a.Put(x, 0, g.label+" ", t.Dimmed())
		}
		x = a.Put(x, 0, g.value, g.style)
		if g.sparks(level) {
			x = style.DrawSpark(a, x+1, g.spark, g.top, g.sparkStyle)
		}
		x += 2
		if i+1 < len(gs) && gs[i+1].bar {
			x--
		}
	}
}
