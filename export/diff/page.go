package diff

import (
	"bytes"
	"cmp"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/export/page"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
)

// These are limits of the page that shows a difference. They keep the page's data at a few MB. The page reports how
// much is left out because of them.
const (
	// maxDiffStacks limits how many stacks a page has. The page keeps the stacks that are heaviest in either
	// measurement. maxDiffNodes limits the nodes of the tree of these stacks.
	maxDiffStacks = 20_000
	maxDiffNodes  = 60_000
	// maxDiffFunctions limits how many functions the page lists. These are the functions with the largest differences.
	// maxDiffNames limits how many functions are summed up separately.
	maxDiffFunctions = 500
	maxDiffNames     = 100_000
	// maxDiffNameBytes limits the total length of the names in the flamegraph, in bytes.
	maxDiffNameBytes = 1 << 20
)

// otherFunctions is the name under which all functions beyond maxDiffNames are added up.
const otherFunctions = "(other functions)"

var differenceScripts = []string{"states.js", "base.js", "flame.js", "diff.js"}

// differenceData is the input of the page's script. If the metric is a time, values are in µs per second of elapsed
// time. Otherwise they are numbers per second, in thousandths: 1,000 means one per second.
type differenceData struct {
	A       string     `json:"a"`
	B       string     `json:"b"`
	Metric  string     `json:"metric"`
	Time    bool       `json:"time"`
	States  []string   `json:"states"`
	Idle    []bool     `json:"idle"`
	ByState [][2]int64 `json:"byState"`
	// Names are the names of functions. A −1 follows each name, because the functions have no file here. Nodes has two
	// numbers for each node: how many nodes back its caller is (0 if it has none), and the function. Stacks has four
	// numbers for each stack: the innermost node, the state, the value in A and in B.
	Names  [][2]any `json:"names"`
	Nodes  []int    `json:"nodes"`
	Stacks []int64  `json:"stacks"`
	// Functions has five numbers for each function. The first is its index. The next two are the function's own values
	// in A and in B. The last two are its values with callees in A and in B. Idle states are left out.
	Functions []int64  `json:"functions"`
	Limits    []string `json:"limits"`
}

// comparedStack is a stack with its value in A and in B.
type comparedStack struct {
	key comparedKey
	v   [2]int64
}

func (s *comparedStack) most() int64 { return max(s.v[0], s.v[1]) }

// WriteHTMLDifference writes the differences between two measurements as a page (see page.WriteIncident). It shows
// states, functions, and a flamegraph coloured by change. In addition to the two measurements, it uses a limited amount
// of memory, however many stacks there are.
func WriteHTMLDifference(w io.Writer, a, b Comparable, metric flamegraph.Metric) error {
	d := differenceBuilder{metric: metric, both: [2]*Comparable{&a, &b}, names: make(map[string]int), states: make(map[string]int)}
	var data bytes.Buffer
	if err := export.WriteCompactJSON(&data, d.build()); err != nil {
		return err
	}
	return page.Write(w, "difference · ddtop", data.Bytes(), differenceScripts)
}

type differenceBuilder struct {
	metric flamegraph.Metric
	both   [2]*Comparable
	out    differenceData
	names  map[string]int // maps a name to its index in the page's list of names
	states map[string]int
	tree   page.Tree
	// nameBytes is the size of all texts in names, in bytes.
	nameBytes int
}

// value returns v per second of elapsed time, in the page's unit. The parameter "of" selects the measurement: 0 is A, 1
// is B.
func (d *differenceBuilder) value(of int, v int64) int64 {
	x := float64(v) / (float64(d.both[of].DurationNS) / 1e9)
	if d.metric.IsTime() {
		return int64(math.Round(x / 1e3))
	}
	return int64(math.Round(x * 1e3))
}

func (d *differenceBuilder) build() *differenceData {
	o := &d.out
	o.Metric, o.Time = d.metric.String(), d.metric.IsTime()
	o.States, o.Idle, o.ByState, o.Limits = []string{}, []bool{}, [][2]int64{}, []string{}
	about := func(c *Comparable) string {
		return flamegraph.Printable(c.About) + ", " + units.ProseDuration(c.DurationNS)
	}
	o.A, o.B = about(d.both[0]), about(d.both[1])
	list, total, kept := d.heaviest()
	cut := int64(0)
	for i := range list {
		if s := &list[i]; !d.stack(s) {
			cut += s.v[0] + s.v[1]
		}
	}
	if cut > 0 {
		o.Limits = append(o.Limits, "of stacks with "+export.Share(cut, total)+" of all the inner frames are cut in the flamegraph: there are too many different ones")
	}
	if kept < total {
		o.Limits = append(o.Limits, "the flamegraph has the "+units.Count(int64(len(list)))+" stacks that weigh most, "+export.Share(kept, total)+" of all; the tables have all")
	}
	d.functions()
	o.Nodes = d.tree.Flat(false)
	if o.Names == nil {
		o.Names = [][2]any{}
	}
	return o
}

// heaviest returns the maxDiffStacks stacks that are heaviest in A or in B, the heaviest first. total is the sum of the
// values of all stacks, and kept is the sum of the values of the returned stacks. heaviest also sums up the states.
func (d *differenceBuilder) heaviest() (list []comparedStack, total, kept int64) {
	byWeight := func(x, y comparedStack) int {
		return cmp.Or(cmp.Compare(y.most(), x.most()), strings.Compare(x.key.stack, y.key.stack), strings.Compare(x.key.state, y.key.state))
	}
	add := func(s comparedStack) {
		if s.v == [2]int64{} {
			return
		}
		total += s.v[0] + s.v[1]
		st := d.state(s.key.state)
		d.out.ByState[st][0] += s.v[0]
		d.out.ByState[st][1] += s.v[1]
		if list = append(list, s); len(list) >= 2*maxDiffStacks {
			sorting.By(list, byWeight)
			clear(list[maxDiffStacks:])
			list = list[:maxDiffStacks]
		}
	}
	// The names are added in a fixed order, so that the same two measurements always give the same page.
	for _, word := range d.words() {
		d.state(word)
	}
	for k, v := range d.both[0].stacks {
		add(comparedStack{k, [2]int64{d.value(0, v), d.value(1, d.both[1].stacks[k])}})
	}
	for k, v := range d.both[1].stacks {
		if _, ok := d.both[0].stacks[k]; !ok {
			add(comparedStack{k, [2]int64{0, d.value(1, v)}})
		}
	}
	sorting.By(list, byWeight)
	list = list[:min(len(list), maxDiffStacks)]
	for i := range list {
		kept += list[i].v[0] + list[i].v[1]
	}
	return list, total, kept
}

// words returns the names of states that occur in either measurement. ddtop's own states come first, in their usual
// order. States of other tools follow.
func (d *differenceBuilder) words() []string {
	seen := make(map[string]bool)
	for _, c := range d.both {
		for k := range c.stacks {
			if len(seen) < maxDiffStates {
				seen[k.state] = true
			}
		}
	}
	rank := func(word string) int {
		if s, ok := gvl.ParseState(word); ok {
			return int(s)
		}
		return int(gvl.NumStates)
	}
	return slices.SortedFunc(maps.Keys(seen), func(x, y string) int { return cmp.Or(cmp.Compare(rank(x), rank(y)), strings.Compare(x, y)) })
}

// maxDiffStates limits the number of different names for states, because another tool's profile may have any number.
// Weights of all states beyond this limit are added to the last name.
const maxDiffStates = 64

func (d *differenceBuilder) state(word string) int {
	i, ok := d.states[word]
	if !ok {
		if len(d.out.States) >= maxDiffStates {
			return maxDiffStates - 1
		}
		i = len(d.out.States)
		d.states[word] = i
		d.out.States = append(d.out.States, cmp.Or(flamegraph.Printable(word), "(not told)"))
		d.out.Idle = append(d.out.Idle, idleState(word, d.metric))
		d.out.ByState = append(d.out.ByState, [2]int64{})
	}
	return i
}

func (d *differenceBuilder) name(s string) int {
	i, ok := d.names[s]
	if !ok {
		i = len(d.out.Names)
		d.names[s] = i
		text := flamegraph.Printable(s)
		if len(text) > page.MaxName {
			text = strings.ToValidUTF8(text[:page.MaxName], "") + "…"
		}
		d.nameBytes += len(text)
		d.out.Names = append(d.out.Names, [2]any{text, -1})
	}
	return i
}

// stack adds a stack to the page. If a limit is reached, stack adds only the outer frames of the stack and returns
// false.
func (d *differenceBuilder) stack(s *comparedStack) (whole bool) {
	at := -1
	whole = true
	for rest, more := s.key.stack, true; more; {
		var frame string
		frame, rest, more = strings.Cut(rest, ";")
		if _, ok := d.names[frame]; !ok && (d.tree.Len() >= maxDiffNodes || d.nameBytes > maxDiffNameBytes) {
			whole = false
			break
		}
		next := d.tree.Add(at, d.name(frame), 0, maxDiffNodes)
		if next < 0 {
			whole = false
			break
		}
		at = next
	}
	d.out.Stacks = append(d.out.Stacks, int64(at), int64(d.state(s.key.state)), s.v[0], s.v[1])
	return whole
}

// comparedFunction is the weight of a function in A and in B. own is the weight of the function itself, and all is its
// weight with callees.
type comparedFunction struct{ own, all [2]int64 }

func (f *comparedFunction) delta() int64 {
	size := func(v [2]int64) int64 { return max(v[1]-v[0], v[0]-v[1]) }
	return max(size(f.own), size(f.all))
}

// functions sums up all stacks by function, and keeps the functions with the largest differences.
func (d *differenceBuilder) functions() {
	sums := make(map[string]*comparedFunction)
	of := func(name string) *comparedFunction {
		f := sums[name]
		if f == nil {
			if len(sums) >= maxDiffNames {
				name = otherFunctions
				if f = sums[name]; f != nil {
					return f
				}
			}
			f = new(comparedFunction)
			sums[name] = f
		}
		return f
	}
	var seen []*comparedFunction
	for side, c := range d.both {
		for k, v := range c.stacks {
			if idleState(k.state, d.metric) {
				continue
			}
			x := d.value(side, v)
			seen = seen[:0]
			for rest, more := k.stack, true; more; {
				var frame string
				frame, rest, more = strings.Cut(rest, ";")
				f := of(frame)
				if !slices.Contains(seen, f) {
					seen = append(seen, f)
					f.all[side] += x
				}
				if !more {
					f.own[side] += x
				}
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(sums), func(x, y string) int {
		return cmp.Or(cmp.Compare(sums[y].delta(), sums[x].delta()), strings.Compare(x, y))
	})
	d.out.Functions = []int64{}
	for _, name := range names[:min(len(names), maxDiffFunctions)] {
		f := sums[name]
		d.out.Functions = append(d.out.Functions, int64(d.name(name)), f.own[0], f.own[1], f.all[0], f.all[1])
	}
	if n := len(names) - maxDiffFunctions; n > 0 {
		d.out.Limits = append(d.out.Limits, units.Plural(n, "function that differs", "functions that differ")+" less are not listed")
	}
}
