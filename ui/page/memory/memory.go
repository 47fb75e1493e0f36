package memory

import (
	"fmt"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/page"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// View registers the page.
var View = page.View{
	ID:   scene.PageMemory,
	Key:  "7",
	Help: "memory and GC: how they went, the collector's figures, and whose code paid for it",
	Make: page.Makes(New),
}

// Page shows the collector and the memory: their course over the time shown, the figures at its end, and the code
// that paid for collections.
type Page struct {
	page.Plain
	flame *widget.Flame

	At     store.Mark // the figures at the end of the time shown
	from   store.Mark // and at its begin; timeNS is zero if there is only one
	known  bool
	series []series
	// Payers are the places of code that ran during collections. The next allocating thread pays for lazy sweeping
	// and for marking in steps.
	Payers []flamegraph.PlaceSum
	GCNS   int64 // time in the collector, by the weights
	paidOf widget.PlacesFrom
}

// series is one figure over the time shown: a value a column, negative where nothing is known.
type series struct {
	name, value string
	values      []float64
	top         float64
	state       gvl.State // gives the colour; Unknown: plain
}

func New(c *widget.Parts) *Page {
	p := &Page{flame: &c.Flame}
	p.KeyMap = scene.KeyMap{Title: "memory and GC", Bindings: []scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "flamegraph", Help: "the flamegraph over the whole screen, coloured by state: gc stands out",
			Do: func(h scene.Host) tea.Cmd { p.flame.Colour = widget.ColourByState; return h.Open(scene.PageFlame) }},
	}}
	return p
}

func (p *Page) About(sc *scene.Scene) string { return sc.When() }

func (p *Page) Detail(*scene.Scene) (name, rest string) { return "", "" }

// memoryLabelW is the width of the names and values before the series.
const memoryLabelW = 34

func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	fromNS, toNS := sc.AtNS-sc.WindowNS, sc.AtNS
	a, b, ok := r.Marks.Span(fromNS, toNS)
	p.known, p.from = b != nil, store.Mark{}
	if b == nil {
		return
	}
	p.At = *b
	if ok {
		p.from = *a
	}
	cols := max(sc.Width-memoryLabelW-2, 8)
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
	f := &sc.Figures
	lastRSS := -1.0
	plain("RSS", units.Bytes(f.RSS), 1, gvl.Unknown, func(i int) float64 {
		if n := cells[i].RSSBytes; n > 0 { // it is read ten times a second at most
			lastRSS = float64(n)
		}
		return lastRSS
	})
	plain("time in GC", units.Percent(f.GC), 0.1, gvl.GC, func(i int) float64 { return style.ValueOr(cells[i].SampledNS == 0, cells[i].GC()) })
	rate := func(of func(*store.Mark) float64) func(i int) float64 {
		each := (toNS - fromNS) / int64(max(len(cells), 1))
		return func(i int) float64 {
			end := fromNS + int64(i+1)*each
			x, y, ok := r.Marks.Span(end-max(each, 2*store.MarkEachNS), end)
			if !ok || end < r.Marks.Mark(0).TimeNS {
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
			if k := r.Marks.LastBefore(end); end >= r.Marks.Mark(0).TimeNS && k.Heap.AtNS != 0 {
				return float64(k.Heap.Live)
			}
			return -1
		}
		plain("live slots", units.Count(b.Heap.Live), 1, gvl.Native, level)
	}
	plain("CPU of a core", units.Percent(f.CPU), 1, gvl.Unknown, func(i int) float64 { return style.ValueOr(cells[i].SampledNS == 0, cells[i].CPU()) })
	p.loadPayers(sc)
}

// perSecond is the mean growth of a counter over the time shown, in words.
func (p *Page) perSecond(of func(*store.Mark) float64) string {
	if p.from.TimeNS == 0 {
		return "–"
	}
	return eachSecond(of(&p.At)-of(&p.from), p.At.TimeNS-p.from.TimeNS)
}

// eachSecond returns the growth per second of a value that grew by n in ns, in words.
func eachSecond(n float64, ns int64) string {
	n /= float64(ns) / 1e9
	if n < 10 {
		return fmt.Sprintf("%.1f/s", n)
	}
	return units.Count(int64(n)) + "/s"
}

// loadPayers sums the time in the collector by the place that ran into it.
func (p *Page) loadPayers(sc *scene.Scene) {
	s := &sc.Weights
	of := widget.PlacesFrom{FromNS: s.FromNS, ToNS: s.ToNS, Hides: sc.Dict.HidesDirectories()}
	if of == p.paidOf {
		return
	}
	p.paidOf, p.GCNS = of, 0
	p.Payers = s.Places(sc.Dict, func(e *flamegraph.Entry) int64 {
		if e.Key.State != gvl.GC {
			return 0
		}
		return e.Weights.WallNS
	})
	for i := range p.Payers {
		p.GCNS += p.Payers[i].NS
	}
}
