// Package diff compares two measurements by state and by function. It writes the result as text, as collapsed stacks,
// or as an HTML page.
package diff

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/export"
	weights "github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// maxCompared limits how many functions each table of WriteDifference has. These are the functions with the largest
// differences.
const maxCompared = 20

// Comparable is one of the two measurements that are compared. It has the weight of each stack and state in one metric,
// such as CPU time.
type Comparable struct {
	// About describes the measurement in one line.
	About string
	// DurationNS is the elapsed time that was measured.
	DurationNS int64
	stacks     map[comparedKey]int64
}

// comparedKey identifies a weight by stack and state. stack has the labels of the stack's frames, outermost first,
// joined by ";". state is the state's name, such as "io".
type comparedKey struct{ stack, state string }

func (k comparedKey) frames() []string { return strings.Split(k.stack, ";") }

// CompareMeasured returns one metric of the measurement m as a Comparable. It fails if m has too little data for the
// metric.
func CompareMeasured(m weights.Measured, metric flamegraph.Metric) (Comparable, error) {
	if err := m.Enough(metric); err != nil {
		return Comparable{}, err
	}
	c := Comparable{About: export.ProcessName(m.Process), DurationNS: m.Weights.ToNS - m.Weights.FromNS, stacks: make(map[comparedKey]int64)}
	m = m.Marked()
	value := m.Weights.Values(metric)
	var frames []sampler.FrameID
	for _, e := range m.Ordered(false, false) {
		frames = m.Dict.Frames(e.Key.Stack, frames[:0])
		names := make([]string, 0, len(frames))
		for _, id := range slices.Backward(frames) {
			if f := m.Dict.Frame(id); !f.IsNative() || !chanceNative(e.Key.State.String()) {
				names = append(names, weights.CollapsedName(f.Label))
			}
		}
		c.add(names, e.Key.State.String(), value(e.Weights))
	}
	return c, c.check()
}

// sampleTypes are the names that a metric has in pprof profiles. ddtop's own name comes first, then the names that
// other tools use.
var sampleTypes = map[flamegraph.Metric][]string{
	flamegraph.Wall: {"wall-time", "wall"}, flamegraph.CPU: {"cpu-time", "cpu"}, flamegraph.Wait: {"gvl-wait"}, flamegraph.Blame: {"blame"},
	flamegraph.Samples: {"samples", "cpu-samples"}, flamegraph.Allocations: {"alloc-objects", "alloc-samples"},
}

// CompareProfile returns one metric of a pprof profile as a Comparable. The profile may be from ddtop, Datadog, or any
// tool that records the metric.
func CompareProfile(p *profile.Profile, metric flamegraph.Metric) (Comparable, error) {
	at := -1
	for _, name := range sampleTypes[metric] {
		if at < 0 {
			at = slices.IndexFunc(p.SampleType, func(v *profile.ValueType) bool { return v.Type == name })
		}
	}
	if at < 0 {
		return Comparable{}, fmt.Errorf("the profile does not have %s", metric)
	}
	if metric.IsTime() && p.SampleType[at].Unit != "nanoseconds" {
		return Comparable{}, fmt.Errorf("the profile has %s in %s, not in nanoseconds", metric, flamegraph.Printable(p.SampleType[at].Unit))
	}
	c := Comparable{About: "profile", DurationNS: p.DurationNanos, stacks: make(map[comparedKey]int64)}
	if len(p.Mapping) > 0 && p.Mapping[0].File != "" {
		c.About = "profile of " + flamegraph.Printable(p.Mapping[0].File)
	}
	for _, s := range p.Sample {
		var names []string
		for _, l := range slices.Backward(s.Location) {
			// This frame is a C function: in ddtop's profiles, only the locations of C functions have addresses.
			if word := s.Label[weights.LabelDdtopState]; len(word) == 1 && l.Address != 0 && chanceNative(word[0]) {
				continue
			}
			for _, line := range slices.Backward(l.Line) {
				if line.Function != nil {
					names = append(names, weights.CollapsedName(line.Function.Name))
				}
			}
		}
		if len(names) > 0 && (names[0] == weights.GCFrame && slices.Equal(s.Label[weights.LabelEvent], []string{weights.EventGC}) || names[0] == flamegraph.NoStack) {
			names = names[1:]
		}
		state := ""
		// ddtop's own name for the state is more precise, so it is read last and replaces the first
		for _, label := range []string{weights.LabelState, weights.LabelDdtopState} {
			if v := s.Label[label]; len(v) == 1 {
				state = weights.CollapsedName(v[0])
			}
		}
		c.add(names, state, s.Value[at])
	}
	return c, c.check()
}

// chanceNative reports whether the comparison leaves C functions out of the stacks of a state. In such a state, ddtop
// reads C functions only in some of the long waits. So two measurements of the same code would differ in C functions by
// chance.
func chanceNative(state string) bool {
	s, ok := gvl.ParseState(state)
	return ok && s.InNative()
}

func (c *Comparable) add(names []string, state string, v int64) {
	if len(names) == 0 {
		names = []string{flamegraph.NoStack}
	}
	if v != 0 {
		c.stacks[comparedKey{strings.Join(names, ";"), state}] += v
	}
}

func (c *Comparable) check() error {
	if c.DurationNS <= 0 {
		return errors.New("the profile has no duration, so values per second cannot be compared")
	}
	return nil
}

// comparison maps a name to the sum of its values in the first and in the second measurement. Values are per second of
// elapsed time.
type comparison map[string]*[2]float64

func (c comparison) add(of int, name string, v float64) {
	if c[name] == nil {
		c[name] = new([2]float64)
	}
	c[name][of] += v
}

// sorted returns the names, the name with the largest difference first. NoStack, the name for time without a stack,
// comes last. Its difference says little about the program, because it depends on which stacks ddtop could read.
func (c comparison) sorted() []string {
	size := func(name string) float64 { return math.Abs(c[name][1] - c[name][0]) }
	last := func(name string) int {
		if name == flamegraph.NoStack {
			return 1
		}
		return 0
	}
	return slices.SortedFunc(maps.Keys(c), func(x, y string) int {
		return cmp.Or(cmp.Compare(last(x), last(y)), cmp.Compare(size(y), size(x)), strings.Compare(x, y))
	})
}

// idleState reports whether time in a state is left out of the comparison by function. These are the states that the
// flamegraph of elapsed time leaves out, too.
func idleState(state string, metric flamegraph.Metric) bool {
	s, ok := gvl.ParseState(state)
	return metric == flamegraph.Wall && ok && s.Idle()
}

// WriteDifference writes the differences between two measurements by state and by function. Values are per second of
// elapsed time, so that measurements of different length can be compared. Functions are compared only by name, because
// a new version of the program can move them to other files and lines.
func WriteDifference(w io.Writer, a, b Comparable, metric flamegraph.Metric) error {
	states, own, all := comparison{}, comparison{}, comparison{}
	for i, c := range []*Comparable{&a, &b} {
		for _, k := range c.ordered() {
			v := float64(c.stacks[k]) / (float64(c.DurationNS) / 1e9)
			if metric.IsTime() {
				v /= 1e6
			}
			states.add(i, cmp.Or(k.state, "(not told)"), v)
			if idleState(k.state, metric) {
				continue
			}
			frames := k.frames()
			own.add(i, frames[len(frames)-1], v)
			slices.Sort(frames)
			for _, f := range slices.Compact(frames) {
				all.add(i, f, v)
			}
		}
	}
	var text strings.Builder
	for i, c := range []*Comparable{&a, &b} {
		fmt.Fprintf(&text, "%s  %s, %s\n", "AB"[i:i+1], flamegraph.Printable(c.About), units.ProseDuration(c.DurationNS))
	}
	unit := metric.String() + ", ms a second of elapsed time; 1,000 is one thread all the time"
	if !metric.IsTime() {
		unit = metric.String() + " a second"
	}
	fmt.Fprintf(&text, "%s\n", unit)
	without := ""
	if metric == flamegraph.Wall {
		without = ", without parked and sleeping threads"
	}
	writeCompared(&text, "by state", states, len(states))
	writeCompared(&text, "in the function itself"+without, own, maxCompared)
	writeCompared(&text, "in the function and what it calls"+without, all, maxCompared)
	_, err := io.WriteString(w, text.String())
	return err
}

func writeCompared(b *strings.Builder, title string, c comparison, most int) {
	const leastDelta = 0.05 // smaller differences would be printed as 0.0, so they are left out
	rows := c.sorted()
	fmt.Fprintf(b, "\n%12s %12s %12s %8s  %s\n", "A", "B", "B − A", "", title)
	shown := 0
	for _, name := range rows {
		v := c[name]
		sign, size := "+", v[1]-v[0]
		if size < 0 {
			sign, size = "−", -size
		}
		if size < leastDelta || shown >= most && name != flamegraph.NoStack {
			continue
		}
		shown++
		change := sign + units.Percent(size/v[0])
		switch {
		case name == flamegraph.NoStack:
			// time without a stack depends on what ddtop could read, so a change of it says nothing about the code
			change = ""
		case v[0] < leastDelta:
			change = "new"
		case v[1] < leastDelta:
			change = "gone"
		case v[1] > 10*v[0]:
			change = "× " + comparedNumber(v[1]/v[0])
		}
		fmt.Fprintf(b, "%12s %12s %12s %8s  %s\n", comparedNumber(v[0]), comparedNumber(v[1]), sign+comparedNumber(size), change, name)
	}
	if left := len(rows) - shown; left > 0 {
		fmt.Fprintf(b, "%48s%s\n", "", units.Plural(left, "row that differs less", "rows that differ less"))
	}
}

// comparedNumber formats a value. Small values get a decimal.
func comparedNumber(v float64) string {
	if v >= 99.95 {
		return units.Count(int64(v + .5))
	}
	return fmt.Sprintf("%.1f", v)
}

func (c *Comparable) ordered() []comparedKey {
	return sorting.Sorted(maps.Keys(c.stacks), func(x, y comparedKey) int {
		return cmp.Or(strings.Compare(x.stack, y.stack), strings.Compare(x.state, y.state))
	})
}

// WriteCollapsedDifference writes each stack that occurs in a or b, with its two weights. The format is the output of
// difffolded.pl, which flamegraph.pl reads:
//
//	outer;inner;[state] A B
//
// A is the weight in the measurement a, and B the weight in b. They are in µs, samples or objects. B is scaled to the
// length of a.
func WriteCollapsedDifference(w io.Writer, a, b Comparable, metric flamegraph.Metric) error {
	both := make(map[comparedKey][2]int64)
	scale := float64(a.DurationNS) / float64(b.DurationNS)
	for k, v := range a.stacks {
		both[k] = [2]int64{weights.CollapsedValue(v, metric), 0}
	}
	for k, v := range b.stacks {
		both[k] = [2]int64{both[k][0], weights.CollapsedValue(int64(float64(v)*scale+.5), metric)}
	}
	out := bufio.NewWriter(w)
	for _, k := range sorting.Sorted(maps.Keys(both), func(x, y comparedKey) int {
		return cmp.Or(strings.Compare(x.stack, y.stack), strings.Compare(x.state, y.state))
	}) {
		v := both[k]
		if v == [2]int64{} {
			continue
		}
		state := ""
		if k.state != "" {
			state = ";[" + k.state + "]"
		}
		fmt.Fprintf(out, "%s%s %d %d\n", k.stack, state, v[0], v[1])
	}
	return out.Flush()
}
