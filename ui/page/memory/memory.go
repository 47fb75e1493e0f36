package memory

import (
	"fmt"
	"math"
	"slices"
	"strings"

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
	ID:     scene.PageMemory,
	Key:    "7",
	Help:   "memory and garbage collection over time, and what fills the memory",
	Shared: page.SearchShared,
	Make:   page.Makes(New),
}

// Page shows the figures of the collector and the memory: how they change over the time on the screen, and their values
// at its end. It also lists the code whose threads did the collector's work. Its other parts show what is on the heap,
// and what the memory consists of.
type Page struct {
	page.Plain
	flame *widget.Flame

	At     store.Mark // the figures at the end of the time shown
	from   store.Mark // the figures at the beginning of the time shown. TimeNS is zero if there is only one mark
	known  bool
	series []series
	// Payers are the places in the code whose threads did the collector's work. Ruby marks and sweeps in steps. When a
	// thread allocates an object, it may have to do one of these steps.
	Payers []flamegraph.PlaceSum
	GCNS   int64 // time in the collector, by the weights
	paidOf widget.PlacesFrom

	part   part
	Counts counts
	Table  widget.Table[kindRow, string]
	// asked is a question about the heap that the user has asked, with its answer. The page shows the answer instead of
	// the table. asked is nil if the page shows no answer.
	asked *answer
	// listKeys are the keys that work while the page shows a list of classes or types. answerKeys are the keys that
	// work while it shows an answer.
	listKeys, answerKeys scene.KeyMap
}

// series holds the values of one figure over the time on the screen: one value for each column. A negative value is not
// known.
type series struct {
	name, value string
	values      []float64
	low, top    float64              // the ends of the scale
	unit        func(float64) string // formats a value of the scale
	state       gvl.State            // gives the colour. Unknown means a dim colour
	level       bool                 // true for a level: it is drawn as a curve, and its scale need not begin at zero
}

// leastSpan is the least difference between the two ends of the scale of a level's curve (series.level), as a share of
// the upper end. Without it, small random changes would fill the whole height.
const leastSpan = 0.1

// fit sets the two ends of the scale so that all values fit. The scale of a rate begins at zero. Its upper end is the
// largest value, or the parameter least if this is larger.
func (s *series) fit(least float64) {
	s.top = least
	if !s.level {
		for _, v := range s.values {
			s.top = max(s.top, v)
		}
		return
	}
	s.low, s.top = math.Inf(1), 0
	for _, v := range s.values {
		if v >= 0 {
			s.low, s.top = min(s.low, v), max(s.top, v)
		}
	}
	if short := leastSpan*s.top - (s.top - s.low); s.top > 0 && short > 0 {
		s.low, s.top = s.low-short/2, s.top+short/2
	}
	s.low = min(s.low, s.top)
}

// scale returns the two ends of the scale as texts. If both have the same unit, only the text of the upper end has the
// unit.
func (s *series) scale() (low, top string) {
	low, top = s.unit(s.low), s.unit(s.top)
	if n, unit, ok := strings.Cut(low, " "); ok && strings.HasSuffix(top, " "+unit) {
		low = n
	} else if s.low == 0 {
		low = "0"
	}
	return low, top
}

// compact returns a number as a short text, to save columns.
func compact(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.1fG", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.0fk", n/1e3)
	case n >= 10 || n == 0:
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

func New(c *widget.Parts) *Page {
	p := &Page{flame: &c.Flame}
	p.Table = widget.Table[kindRow, string]{List: widget.List[kindRow, string]{Cursor: new(string)}, Columns: p.kindColumns(), Left: 1, Right: 1, By: "bytes"}
	counted := func(h scene.Host) bool { return h.Showing().Opt.Heap != nil }
	parts := []scene.Binding{
		{Keys: []string{"right", "l", "tab"}, Show: "← →", Short: "part", When: counted, Help: "the collector, the objects by class, by type, what the memory consists of (also l, tab)",
			Do: p.turn(+1)},
		{Keys: []string{"left", "shift+tab"}, Do: p.turn(-1)},
	}
	p.KeyMap = scene.KeyMap{Title: "memory and GC", Bindings: append([]scene.Binding{
		{Keys: []string{"enter"}, Show: "enter", Short: "flamegraph", Help: "open the flamegraph, coloured by state: gc stands out",
			Do: func(h scene.Host) tea.Cmd { p.flame.Colour = widget.ColourByState; return h.Open(scene.PageFlame) }},
	}, parts...)}
	p.listKeys = scene.KeyMap{Title: "memory: objects", Bindings: slices.Concat([]scene.Binding{
		{Keys: []string{"h", "enter"}, Show: "h enter", Short: "holders", Help: "copy the heap, and show what holds the objects of the class",
			When: func(scene.Host) bool { return p.part == classesPart }, Do: p.ask(false)},
		{Keys: []string{"b"}, Show: "b", Short: "biggest", Help: "copy the heap, and show the largest Strings, Arrays and Hashes, and equal Strings", Do: p.ask(true)},
	}, parts, widget.SortKeys("sort by the previous, the next column", func() widget.Sorter { return &p.Table }),
		widget.CursorKeys("", "select a class", p.move))}
	p.answerKeys = scene.KeyMap{Title: "memory: holders", Bindings: append([]scene.Binding{
		{Keys: []string{"esc", "backspace"}, Show: "esc", Short: "back", Always: true, Help: "back to the classes. It also ends the copy", Do: p.leave},
		{Keys: []string{"h"}, Show: "h", Short: "at once", Help: "copy the rest at once, with a whole CPU: half a second for a million objects",
			When: func(scene.Host) bool { return p.asked.waits() }, Do: p.hurry},
	}, widget.CursorKeys("", "scroll", p.move)...)}
	return p
}

// Keys returns the keys of the part of the page that is shown. If all is true, it returns the keys of all parts.
func (p *Page) Keys(_ *scene.Scene, all bool) []*scene.KeyMap {
	switch {
	case all:
		return []*scene.KeyMap{&p.KeyMap, &p.listKeys, &p.answerKeys}
	case p.asked != nil:
		return []*scene.KeyMap{&p.answerKeys}
	case p.part != collectorPart:
		return []*scene.KeyMap{&p.listKeys}
	}
	return []*scene.KeyMap{&p.KeyMap}
}

func (p *Page) About(sc *scene.Scene) string {
	if p.part == collectorPart {
		return sc.When()
	}
	s := ""
	if by := p.Table.Sorted("bytes"); by != "" && p.part != consistsPart {
		s = by + style.Between
	}
	return s + "of the live process"
}

func (p *Page) Detail(*scene.Scene) (name, rest string) {
	i := p.Table.Index()
	if i < 0 || !p.Lists() {
		return "", ""
	}
	r := p.Table.Rows[i]
	rest = fmt.Sprintf("%s in slots", units.FineBytes(int64(r.SlotBytes)))
	if r.OtherBytes != nil {
		rest += fmt.Sprintf(", %s elsewhere", units.FineBytes(int64(*r.OtherBytes)))
	}
	if r.Unsized > 0 {
		rest += fmt.Sprintf(", and of %s objects more, which is not known", units.Count(int64(r.Unsized)))
	}
	if k := r.growing; k != nil {
		rest += fmt.Sprintf(". It grows by %s/s", units.Bytes(int64(k.BytesPerSecond)))
	}
	return flamegraph.Printable(r.Name), rest
}

const (
	// memoryLabelW is the width of what is drawn to the left of each series: its name, value and scale.
	memoryLabelW   = 44
	valueW, scaleW = 12, 10
)

func (p *Page) Load(sc *scene.Scene, r *store.Reading) {
	if p.Lists() {
		p.loadRows()
	}
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
	add := func(s series, least float64, of func(i int) float64) {
		s.values = make([]float64, len(cells))
		for i := range cells {
			s.values[i] = of(i)
		}
		s.fit(least)
		p.series = append(p.series, s)
	}
	bytes := func(n float64) string { return units.Bytes(int64(n)) }
	each := func(n float64) string { return compact(n) + "/s" }
	f := &sc.Figures
	lastRSS := -1.0
	add(series{name: "RSS", value: units.Bytes(f.RSS), level: true, unit: bytes}, 1, func(i int) float64 {
		// many cells have no value, because ddtop reads it at most ten times a second
		if n := cells[i].RSSBytes; n > 0 {
			lastRSS = float64(n)
		}
		return lastRSS
	})
	if b.Heap.AtNS != 0 && b.Live != sampler.GCUnknown {
		level := func(i int) float64 {
			end := fromNS + int64(i+1)*(toNS-fromNS)/int64(max(len(cells), 1))
			if k := r.Marks.LastBefore(end); end >= r.Marks.Mark(0).TimeNS && k.Heap.AtNS != 0 {
				return float64(k.Live)
			}
			return -1
		}
		live := units.Count(b.Live)
		add(series{name: "live slots", value: live, level: true, unit: compact, state: gvl.Native}, 1, level)
	}
	add(series{name: "time in GC", value: units.Percent(f.GC), unit: units.Percent, state: gvl.GC}, 0.1,
		func(i int) float64 { return style.ValueOr(cells[i].SampledNS == 0, cells[i].GC()) })
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
		allocated := func(k *store.Mark) float64 { return float64(k.GC.Allocated) }
		collections := func(k *store.Mark) float64 { return float64(k.GC.Count) }
		add(series{name: "objects allocated", value: p.perSecond(allocated), unit: each, state: gvl.Running}, 1,
			rate(allocated))
		add(series{name: "collections", value: p.perSecond(collections), unit: each, state: gvl.GC}, 1,
			rate(collections))
	}
	add(series{name: "CPU of a core", value: units.Percent(f.CPU), unit: units.Percent}, 0.1,
		func(i int) float64 { return style.ValueOr(cells[i].SampledNS == 0, cells[i].CPU()) })
	p.loadPayers(sc)
}

// perSecond returns, in words, how much a counter grew per second, on average over the time on the screen.
func (p *Page) perSecond(of func(*store.Mark) float64) string {
	if p.from.TimeNS == 0 {
		return "–"
	}
	return eachSecond(of(&p.At)-of(&p.from), p.At.TimeNS-p.from.TimeNS)
}

// eachSecond returns as text how much a value grew per second. It grew by n in ns nanoseconds.
func eachSecond(n float64, ns int64) string {
	n /= float64(ns) / 1e9
	if n < 10 {
		return fmt.Sprintf("%.1f/s", n)
	}
	return units.Count(int64(n)) + "/s"
}

// loadPayers adds up the time in the collector. There is one sum for each place in the code whose threads did the
// collector's work.
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
