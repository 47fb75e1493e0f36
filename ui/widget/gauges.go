package widget

import (
	"fmt"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// gauge is one figure in the first lines of the screen: a word, its value and, if there is room, a small graph of its
// recent past (spark).
type gauge struct {
	Label, Value string
	style        canvas.Style
	spark        []float64
	top          float64
	sparkStyle   canvas.Style
	// priority decides which gauges a narrow terminal leaves out: the ones with the largest numbers first. The spark of
	// a gauge has the number priority+sparkLater. So it is left out before the gauge itself.
	priority int
	// bar is true if a vertical line is drawn between this gauge and the previous one.
	bar bool
}

const sparkLater = 10

// GaugesOf returns the figures of the head.
func GaugesOf(f *scene.Figures, t *style.Theme, s *scene.Served) []gauge {
	waitColor := t.Readable(t.States[gvl.Waiting])
	heldStyle, waitStyle := t.Bold(), t.Bold()
	if f.Held >= 0.85 {
		heldStyle.FG = t.Warn
	}
	if f.Waiting >= 0.5 {
		waitStyle.FG = waitColor
	}
	gs := []gauge{
		{Label: "GVL", Value: f.Told(sampler.FigureStates, units.Percent(f.Held)), style: heldStyle, spark: f.HeldSpark, top: 1,
			sparkStyle: canvas.Style{FG: t.Readable(t.States[gvl.Running])}, priority: 0},
		{Label: "waiting", Value: f.Told(sampler.FigureStates, fmt.Sprintf("%.1f", f.Waiting)), style: waitStyle, spark: f.WaitSpark, top: maxOf(f.WaitSpark, 1),
			sparkStyle: canvas.Style{FG: waitColor}, priority: 1},
		{Label: "wait p99", Value: f.WaitText(store.WaitP99), style: t.Plain(), priority: 4},
		{Label: "CPU", Value: units.Percent(f.CPU), style: t.Bold(), spark: f.CPUSpark, top: maxOf(f.CPUSpark, 1),
			sparkStyle: t.Dimmed(), priority: 2, bar: true},
	}
	if f.BacklogKnown && f.Backlog > 0 {
		gs = append(gs, gauge{Label: "backlog", Value: units.Count(f.Backlog), style: canvas.Style{FG: t.Warn, Attr: canvas.Bold}, priority: 2})
	}
	if f.Throttled > 0 {
		gs = append(gs, gauge{Label: "throttled", Value: units.Percent(f.Throttled), style: canvas.Style{FG: t.Warn, Attr: canvas.Bold}, priority: 3})
	}
	if f.GCKnown {
		style := t.Bold()
		if f.GC >= 0.1 {
			style.FG = t.Readable(t.States[gvl.GC])
		}
		gs = append(gs, gauge{Label: "GC", Value: f.Told(sampler.FigureStates, units.Percent(f.GC)), style: style, spark: f.GCSpark, top: maxOf(f.GCSpark, 0.2),
			sparkStyle: canvas.Style{FG: t.Readable(t.States[gvl.GC])}, priority: 5, bar: true},
			gauge{Value: fmt.Sprintf("%d minor %d major", f.Minor, f.Major), style: t.Dimmed(), priority: 8})
	}
	if f.RSS > 0 {
		gs = append(gs, gauge{Label: "RSS", Value: units.Bytes(f.RSS), style: t.Bold(), spark: f.RSSSpark, top: maxOf(f.RSSSpark, 1),
			sparkStyle: t.Dimmed(), priority: 6, bar: true})
	}
	if s.Seen {
		gs = append(gs, gauge{Label: "requests", Value: units.Count(int64(len(s.Running))), style: t.Bold(), priority: 4, bar: true},
			gauge{Value: f.Told(sampler.FigureRequests, scene.PerSecondText(s.PerSecond, s.AtLeast)) + "/s", style: t.Bold(), priority: 4})
		if n, _ := s.Lengths.Count(); n > 0 && f.Enough(sampler.FigureRequests) {
			gs = append(gs, gauge{Label: s.QuantileName(.95), Value: s.Length(.95), style: t.Bold(), priority: 7})
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

// width returns how many columns a gauge takes. All gauges with a priority above level are left out. If this gauge is
// one of them, width returns zero.
func (g *gauge) width(level int) int {
	if g.priority > level {
		return 0
	}
	w := canvas.Width(g.Value) + 2
	if g.Label != "" {
		w += canvas.Width(g.Label) + 1
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

func DrawGauges(a canvas.Area, f *scene.Figures, s *scene.Served, t *style.Theme) {
	gs := GaugesOf(f, t, s)
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
		if g.Label != "" {
			x = a.Put(x, 0, g.Label+" ", t.Dimmed())
		}
		x = a.Put(x, 0, g.Value, g.style)
		if g.sparks(level) {
			x = style.DrawSpark(a, x+1, g.spark, g.top, g.sparkStyle)
		}
		x += 2
		if i+1 < len(gs) && gs[i+1].bar {
			x--
		}
	}
}
