// Package profile writes profiles: how much time and how many objects each thread, stack and state has. Its formats are
// pprof, collapsed stacks, speedscope, callgrind, and a flamegraph as SVG.
package profile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/export/trace"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// Measured is the input of the exports of profiles: weights per thread, stack and state over an interval.
type Measured struct {
	Process sampler.Process
	Dict    *sampler.Dictionary
	Weights *flamegraph.Snapshot
	// Served describes the requests and jobs to which the EndpointIDs in Weights refer. If it is nil, no requests and
	// jobs are written.
	Served []flamegraph.Served
	// Trace has the events of the process in order of time. Only some formats need it. For other formats it is nil.
	Trace *trace.Trace
	// Timeline has the weights in order of time, each with its time. If it is nil, pprof profiles have only sums over
	// the whole measurement.
	Timeline *Timeline
	// Heap has the live objects at the end of the measurement. It is nil if they were not counted.
	Heap *export.Heap
	// Own is true if collapsed stacks merge adjacent frames that are not the program's own code (flamegraph.Fold).
	Own bool
	// AllFrames is true if a flamegraph shows all frames, and threads at rest. If it is false, the graph first shows
	// the program's own code.
	AllFrames bool
}

// Marked returns m with a mark on the names of uncertain frames, so that readers of a file can recognize these frames.
// Each function that exports stacks calls Marked first.
func (m Measured) Marked() Measured {
	m.Dict = m.Dict.Marked()
	return m
}

// Ordered returns the entries that have any weight. Their order is fixed, so that the same measurement always gives the
// same file. If served is false, it merges entries that differ only in the request or job. If reasons is false, it
// merges entries that differ only in the reason of a garbage collection.
func (m Measured) Ordered(served, reasons bool) []flamegraph.Entry {
	out := make([]flamegraph.Entry, 0, len(m.Weights.Entries))
	for _, e := range m.Weights.Entries {
		if e.Weights == (flamegraph.Weights{}) {
			continue
		}
		if !served {
			e.Key.Endpoint = 0
		}
		if !reasons {
			e.Key.GC = 0
		}
		out = append(out, e)
	}
	sorting.By(out, func(x, y flamegraph.Entry) int { return x.Key.Compare(&y.Key) })
	n := 0
	for _, e := range out {
		if n > 0 && out[n-1].Key == e.Key {
			out[n-1].Weights = out[n-1].Weights.Plus(e.Weights)
			continue
		}
		out[n] = e
		n++
	}
	return out[:n]
}

// OnlyEndpoints keeps only the weights of requests and jobs for which match returns true. The argument of match is
// the request's route or the job's class.
func (m *Measured) OnlyEndpoints(match func(name string) bool) {
	other := func(k flamegraph.Key) bool {
		at := int(k.Endpoint)
		return at == 0 || at >= len(m.Served) || m.Served[at].Name == "" || !match(m.Served[at].Name)
	}
	s := *m.Weights
	s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e flamegraph.Entry) bool { return other(e.Key) })
	for i := range s.Entries { // the shares of objects are estimates; only their sum is exact
		s.Entries[i].Weights.ForgetAllocations()
	}
	m.Weights = &s
	if m.Timeline != nil {
		m.Timeline.drop(other)
	}
}

// errTooFew means that too few allocations were sampled to show which code allocates. A longer measurement helps.
var errTooFew = errors.New("too few allocations were seen")

// Enough returns an error if the measurement has too little data for a metric, such as too few sampled allocations.
func (m Measured) Enough(metric flamegraph.Metric) error {
	if a := m.Weights.Allocations(); metric == flamegraph.Allocations && !a.Enough() {
		return fmt.Errorf("allocations of pid %d: %w: %d objects were allocated, in %d instants of reading a stack, and %d are needed; measure for longer, or with a higher --lock-rate",
			m.Process.PID, errTooFew, a.Objects, a.Ticks, flamegraph.MinAllocTicks)
	}
	return nil
}

// Profile returns a pprof profile with the sample types wall-time, cpu-time, gvl-wait and blame in ns, and samples. If
// enough allocations were sampled, it also has the estimate alloc-objects (flamegraph.AllocEstimate). Some types are
// repeated under Datadog's names: cpu-samples, timeline (the time of collections), alloc-samples. If m has a Timeline,
// each sample is one interval of a thread and has the time of the interval's end. Otherwise each sample is the sum of
// the intervals of the same thread, stack and state. The totals are the same.
//
// Two functions differ if their label, file or first line differ. Two locations differ if their function or line
// differ. This makes pprof's view by line work. The mapping of a location names the origin of its code: the title of
// the program, "gem rack 2.2.7" or "ruby stdlib". Names are flamegraph.Printable, because `go tool pprof` writes them
// to terminals unchanged. Profile fails only if it built an invalid profile, which is a bug.
func Profile(m Measured) (*profile.Profile, error) {
	m = m.Marked()
	b := profileBuilder{
		m: m, mapping: &profile.Mapping{ID: 1, File: export.ProgramName(m.Process), HasFunctions: true, HasFilenames: true, HasLineNumbers: true},
		functions: make(map[flamegraph.FuncKey]*profile.Function),
		locations: make(map[sampler.FrameID]*profile.Location),
		byLine:    make(map[lineKey]*profile.Location),
		mappings:  make(map[string]*profile.Mapping),
		native:    make(map[nativeKey]*profile.Function),
		labels:    make(map[sampler.ThreadID]threadLabels),
	}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "wall-time", Unit: "nanoseconds"}, {Type: "cpu-time", Unit: "nanoseconds"},
			{Type: "gvl-wait", Unit: "nanoseconds"}, {Type: "samples", Unit: "count"}, {Type: "blame", Unit: "nanoseconds"},
			{Type: "cpu-samples", Unit: "count"}, {Type: "timeline", Unit: "nanoseconds"},
		},
		DefaultSampleType: "wall-time",
		PeriodType:        &profile.ValueType{Type: "wall-time", Unit: "nanoseconds"},
		TimeNanos:         m.Process.WallTime(m.Weights.FromNS).UnixNano(),
		DurationNanos:     m.Weights.ToNS - m.Weights.FromNS,
		Mapping:           []*profile.Mapping{b.mapping},
		Comments:          comments(m),
	}
	if m.Process.StackRate > 0 {
		p.Period = int64(1e9 / m.Process.StackRate)
	}
	if a := m.Weights.Allocations(); a.Enough() {
		b.objects = m.Weights.Values(flamegraph.Allocations)
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: "alloc-objects", Unit: "count"}, &profile.ValueType{Type: "alloc-samples", Unit: "count"})
		p.Comments = append(p.Comments, fmt.Sprintf("ddtop: alloc-objects and alloc-samples are an estimate from %d instants, ± %.0f %%; its sum, %d, is exact",
			a.Ticks, 100*a.Error(), a.Objects))
	}
	b.p = p
	b.mappings[b.mapping.File] = b.mapping
	entries := m.Ordered(m.Served != nil, true)
	b.starts = threadStarts(m.Dict, entries)
	if m.Timeline != nil {
		m.Timeline.each(func(e flamegraph.Entry, endNS int64) {
			m.Weights.Ran.Divide(e, func(e flamegraph.Entry) { b.add(e, endNS) })
		})
	} else {
		for _, e := range entries {
			b.add(e, 0)
		}
	}
	if m.Heap != nil {
		addHeap(p, b.mapping, m.Heap)
	}
	if err := p.CheckValid(); err != nil {
		return nil, fmt.Errorf("pprof profile of pid %d: %w", m.Process.PID, err)
	}
	return p, nil
}

// WriteProfile writes Profile's result in the gzip-compressed form that `go tool pprof` opens.
func WriteProfile(w io.Writer, m Measured) error {
	p, err := Profile(m)
	if err != nil {
		return err
	}
	return p.Write(w)
}

func comments(m Measured) []string {
	c := []string{fmt.Sprintf("ddtop: pid %d, %s", m.Process.PID, flamegraph.Printable(m.Process.RubyDescription))}
	if n := m.Weights.Overflow; n > 0 {
		c = append(c, fmt.Sprintf("ddtop: %d additions had more distinct stacks than are kept; they are under %s", n, flamegraph.NoStack))
	}
	if d := m.Weights.Dropped; d.WallNS > 0 {
		c = append(c, fmt.Sprintf("ddtop: %d ns of wall time came too late for the window and are missing", d.WallNS))
	}
	if m.Timeline != nil && m.Timeline.CutNS() != 0 {
		c = append(c, fmt.Sprintf("ddtop: from %s on there are sums without timestamps: there was too much to keep",
			m.Process.WallTime(m.Timeline.CutNS()).UTC().Format(time.RFC3339Nano)))
	}
	return c
}

type lineKey struct {
	function uint64
	line     int32
	mapping  uint64
}

type profileBuilder struct {
	m Measured
	p *profile.Profile
	// the mapping of the program's own code. It comes first, because readers of profiles expect the main program there
	mapping   *profile.Mapping
	mappings  map[string]*profile.Mapping
	functions map[flamegraph.FuncKey]*profile.Function
	native    map[nativeKey]*profile.Function
	locations map[sampler.FrameID]*profile.Location
	byLine    map[lineKey]*profile.Location
	labels    map[sampler.ThreadID]threadLabels
	frames    []sampler.FrameID
	starts    map[sampler.ThreadID]string // where threads without a name were started
	gc        *profile.Location           // the location of GCFrame, or nil before its first use
	// objects estimates the allocated objects of each entry. It is nil if too few allocations were sampled.
	objects func(flamegraph.Weights) int64
}

// These are indexes in the list of a sample's values. The values for objects come last, because not every profile has
// them.
const (
	valueWall = iota
	valueCPU
	valueWait
	valueSamples
	valueBlame
	valueCPUSamples
	valueTimeline
)

// add adds the samples of an entry.
func (b *profileBuilder) add(e flamegraph.Entry, endNS int64) {
	b.frames = b.m.Dict.Frames(e.Key.Stack, b.frames[:0])
	if len(b.frames) == 0 {
		b.frames = append(b.frames, 0)
	}
	values := make([]int64, valueTimeline+1, valueTimeline+3)
	values[valueWall], values[valueCPU], values[valueWait] = e.Weights.WallNS, e.Weights.CPUNS, e.Weights.WaitNS
	values[valueSamples], values[valueBlame] = e.Weights.Samples, e.Weights.BlameNS
	values[valueCPUSamples] = e.Weights.Samples
	if e.Key.State == gvl.GC {
		values[valueTimeline] = e.Weights.WallNS
	}
	offCPU := int64(0)
	if e.Key.State.Datadog() != gvl.DatadogCPU {
		offCPU, values[valueCPU] = values[valueCPU], 0
	}
	if b.objects != nil {
		n := b.objects(e.Weights)
		values = append(values, n, n)
	}
	b.sample(e.Key, values, endNS)
	if offCPU != 0 { // a wait uses no CPU: this CPU time was used just before or after it
		rest := make([]int64, len(values))
		rest[valueCPU] = offCPU
		s := b.sample(e.Key, rest, endNS)
		s.Label[LabelState] = []string{gvl.DatadogCPU}
	}
}

// sample adds a sample and returns it. If all values are 0, it adds no sample and returns nil.
func (b *profileBuilder) sample(k flamegraph.Key, values []int64, endNS int64) *profile.Sample {
	if !slices.ContainsFunc(values, func(v int64) bool { return v != 0 }) {
		return nil
	}
	s := &profile.Sample{Value: values, Location: make([]*profile.Location, len(b.frames), len(b.frames)+1)}
	for i, f := range b.frames {
		s.Location[i] = b.location(f)
	}
	if k.State == gvl.GC {
		s.Location = append(s.Location, b.collecting())
	}
	b.label(s, k)
	if endNS != 0 {
		setNumber(s, labelEnd, b.m.Process.WallTime(endNS).UnixNano())
	}
	b.p.Sample = append(b.p.Sample, s)
	return s
}

// collecting returns the location of GCFrame, the frame that stands for garbage collection.
func (b *profileBuilder) collecting() *profile.Location {
	if b.gc == nil {
		b.gc = b.at(sampler.Frame{Label: GCFrame, Name: GCFrame}, b.mapping)
	}
	return b.gc
}

func (b *profileBuilder) location(id sampler.FrameID) *profile.Location {
	if l, ok := b.locations[id]; ok {
		return l
	}
	f := b.m.Dict.Frame(id)
	if id == 0 {
		f = sampler.Frame{Label: flamegraph.NoStack, Name: flamegraph.NoStack}
	}
	var l *profile.Location
	if f.IsNative() {
		l = b.nativeLocation(f)
	} else {
		l = b.at(f, b.mappingOf(f))
	}
	b.locations[id] = l
	return l
}

// at returns the location of a frame's line.
func (b *profileBuilder) at(f sampler.Frame, m *profile.Mapping) *profile.Location {
	fn := b.function(f)
	k := lineKey{fn.ID, f.Line, m.ID}
	l, ok := b.byLine[k]
	if !ok {
		l = &profile.Location{ID: uint64(len(b.p.Location) + 1), Mapping: m, Line: []profile.Line{{Function: fn, Line: int64(f.Line)}}}
		b.p.Location = append(b.p.Location, l)
		b.byLine[k] = l
	}
	return l
}

// mappingOf returns the mapping that names the origin of a frame's code, such as a gem.
func (b *profileBuilder) mappingOf(f sampler.Frame) *profile.Mapping {
	var name string
	switch f.Origin {
	case sampler.OriginGem:
		name = "gem " + flamegraph.Printable(f.Gem)
	case sampler.OriginStdlib, sampler.OriginCore, sampler.OriginEval:
		name = "ruby " + f.Origin.String()
	default:
		return b.mapping
	}
	m, ok := b.mappings[name]
	if !ok {
		m = &profile.Mapping{ID: uint64(len(b.p.Mapping) + 1), File: name, HasFunctions: true, HasFilenames: true, HasLineNumbers: true}
		b.p.Mapping = append(b.p.Mapping, m)
		b.mappings[name] = m
	}
	return m
}

func (b *profileBuilder) function(f sampler.Frame) *profile.Function {
	k := flamegraph.FuncKey{Label: flamegraph.Printable(f.Label), File: flamegraph.Printable(f.File()), Line: f.FirstLine}
	if fn, ok := b.functions[k]; ok {
		return fn
	}
	fn := &profile.Function{
		ID: uint64(len(b.p.Function) + 1), Name: k.Label, SystemName: flamegraph.Printable(f.Name), Filename: k.File, StartLine: int64(f.FirstLine),
	}
	b.p.Function = append(b.p.Function, fn)
	b.functions[k] = fn
	return fn
}
