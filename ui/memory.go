package ui

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
)

// memoryPage shows the collector and the memory: how they went over the time shown, the figures at its end, and whose
// code paid for collections.
type memoryPage struct {
	plainPage
	flame *flameView

	at     store.Mark // the figures at the end of the time shown
	from   store.Mark // and at its begin; timeNS 0: there is only one
	known  bool
	series []series
	// payers are the places in the code that ran when the collector did: lazy sweeping and marking in steps are paid by
	// whoever allocates next.
	payers []flamegraph.PlaceSum
	gcNS   int64 // time in the collector, by the weights
	paidOf placesFrom
}

// series is one figure over the time shown: a value a column, negative where nothing is known.
type series struct {
	name, value string
	values      []float64
	top         float64
	state       gvl.State // gives the colour; Unknown: plain
}

func newMemoryPage(c *components) *memoryPage {
	p := &memoryPage{flame: &c.flame}
	p.keyMap = keyMap{title: "memory and GC", bindings: []binding{
		{keys: []string{"enter"}, show: "enter", short: "flamegraph", help: "the flamegraph over the whole screen, coloured by state: gc stands out",
			do: func(h Host) tea.Cmd { p.flame.colour = colourByState; return h.Open(pageFlame) }},
	}}
	return p
}

func (p *memoryPage) about(sc *scene) string { return sc.when() }

func (p *memoryPage) detail(*scene) (name, rest string) { return "", "" }

// memoryLabelW is the width of the names and values before the series.
const memoryLabelW = 34

func (p *memoryPage) load(sc *scene, r *store.Reading) {
	fromNS, toNS := sc.atNS-sc.windowNS, sc.atNS
	a, b, ok := r.Marks.Span(fromNS, toNS)
	p.known, p.from = b != nil, store.Mark{}
	if b == nil {
		return
	}
	p.at = *b
	if ok {
		p.from = *a
	}
	cols := max(sc.width-memoryLabelW-2, 8)
	cells := r.Timeline.Process(fromNS, toNS, cols)
	p.series = p.series[:0]
	plain := func(name, value string, least float64, state gvl.State, of func(i int) float64) {
		s := series{name: name, value: value, state: state, top: least, values: make([]float64, len(cells))}
		for i := range cells {
			s.values[i] = of(i)
			s.top = max(s.top, s.values[i])
		}
		p.series = append(p.series, s)
	}
	f := &sc.figures
	lastRSS := -1.0
	plain("RSS", units.Bytes(f.rss), 1, gvl.Unknown, func(i int) float64 {
		if n := cells[i].RSSBytes; n > 0 { // it is read ten times a second at most
			lastRSS = float64(n)
		}
		return lastRSS
	})
	plain("time in GC", units.Percent(f.gc), 0.1, gvl.GC, func(i int) float64 { return valueOr(cells[i].SampledNS == 0, cells[i].GC()) })
	rate := func(of func(*store.Mark) float64) func(i int) float64 {
		each := (toNS - fromNS) / int64(max(len(cells), 1))
		return func(i int) float64 {
			end := fromNS + int64(i+1)*each
			x, y, ok := r.Marks.Span(end-max(each, 2*store.MarkEachNS), end)
			if !ok || end < r.Marks.At(0).TimeNS {
				return -1
			}
			return max(of(y)-of(x), 0) / (float64(y.TimeNS-x.TimeNS) / 1e9)
		}
	}
	if b.GC.Valid {
		allocated := rate(func(k *store.Mark) float64 { return float64(k.GC.Allocated) })
		plain("objects allocated", p.perSecond(func(k *store.Mark) float64 { return float64(k.GC.Allocated) }), 1, gvl.Running, allocated)
		plain("collections", p.perSecond(func(k *store.Mark) float64 { return float64(k.GC.Count) }), 1, gvl.GC, rate(func(k *store.Mark) float64 { return float64(k.GC.Count) }))
	}
	if b.Heap.AtNS != 0 && b.Heap.Live != sampler.GCUnknown {
		level := func(i int) float64 {
			end := fromNS + int64(i+1)*(toNS-fromNS)/int64(max(len(cells), 1))
			if k := r.Marks.Before(end); end >= r.Marks.At(0).TimeNS && k.Heap.AtNS != 0 {
				return float64(k.Heap.Live)
			}
			return -1
		}
		plain("live slots", units.Count(b.Heap.Live), 1, gvl.Native, level)
	}
	plain("CPU of a core", units.Percent(f.cpu), 1, gvl.Unknown, func(i int) float64 { return valueOr(cells[i].SampledNS == 0, cells[i].CPU()) })
	p.loadPayers(sc)
}

// perSecond is the mean growth of a counter over the time shown, in words.
func (p *memoryPage) perSecond(of func(*store.Mark) float64) string {
	if p.from.TimeNS == 0 {
		return "–"
	}
	return eachSecond(of(&p.at)-of(&p.from), p.at.TimeNS-p.from.TimeNS)
}

// eachSecond is how much a second something grew that grew by n in ns, in words.
func eachSecond(n float64, ns int64) string {
	n /= float64(ns) / 1e9
	if n < 10 {
		return fmt.Sprintf("%.1f/s", n)
	}
	return units.Count(int64(n)) + "/s"
}

// loadPayers sums the time in the collector by the place that ran into it.
func (p *memoryPage) loadPayers(sc *scene) {
	s := &sc.weights
	of := placesFrom{s.FromNS, s.ToNS, sc.dict.HidesDirectories()}
	if of == p.paidOf {
		return
	}
	p.paidOf, p.gcNS = of, 0
	p.payers = s.Places(sc.dict, func(e *flamegraph.Entry) int64 {
		if e.Key.State != gvl.GC {
			return 0
		}
		return e.Weights.WallNS
	})
	for i := range p.payers {
		p.gcNS += p.payers[i].NS
	}
}
