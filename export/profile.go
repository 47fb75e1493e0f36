package export

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
)

// Labels of a pprof sample. The thread label holds the native thread id where it is known, since that is what other tools
// call a thread, and ddtop's own id as "#3" where it is not.
const (
	labelThreadID   = "thread id"
	labelThreadName = "thread name"
	labelDdtopID    = "ddtop id"
	labelState      = "ddtop state"
	labelRactor     = "ractor"
	// labelOrigin is where the innermost frame's code comes from (sampler.Origin's words), labelGem its gem, if any.
	labelOrigin = "origin"
	labelGem    = "gem"
	// Whom the thread worked for, under the names that Datadog's profiler gives them.
	labelEndpoint = "trace endpoint"
	labelSpan     = "span id"
	labelRootSpan = "local root span id"
)

// noStackName is the function under which a profile shows time whose stack was never read.
const noStackName = "(no stack)"

// Measured is what the exports of profiles are made from: weights per thread, stack and state over a stretch of time.
type Measured struct {
	Process sampler.Process
	Dict    *sampler.Dictionary
	Weights *flamegraph.Snapshot
	// Served is what the EndpointIDs of Weights stand for; nil: nothing is told of whom threads worked for.
	Served []flamegraph.Served
	// Trace is what happened in the order of time; nil where no format needs it.
	Trace *Trace
	// Own: collapsed stacks have runs of frames that are not the program's own as one (flamegraph.Fold).
	Own bool
}

// ordered returns the entries with weight in a fixed order, so that the same measurement gives the same bytes. Those that differ in
// whom the thread worked for alone are one, unless served.
func (m Measured) ordered(served bool) []flamegraph.Entry {
	out := make([]flamegraph.Entry, 0, len(m.Weights.Entries))
	for _, e := range m.Weights.Entries {
		if e.Weights != (flamegraph.Weights{}) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(x, y flamegraph.Entry) int {
		return cmp.Or(cmp.Compare(x.Key.Thread, y.Key.Thread), cmp.Compare(x.Key.Stack, y.Key.Stack), cmp.Compare(x.Key.State, y.Key.State),
			cmp.Compare(x.Key.Endpoint, y.Key.Endpoint))
	})
	if served {
		return out
	}
	n := 0
	for _, e := range out {
		e.Key.Endpoint = 0
		if n > 0 && out[n-1].Key == e.Key {
			out[n-1].Weights = out[n-1].Weights.Plus(e.Weights)
			continue
		}
		out[n] = e
		n++
	}
	return out[:n]
}

// OnlyEndpoints leaves the weights of requests and jobs alone whose route or class match says yes to.
func (m *Measured) OnlyEndpoints(match func(name string) bool) {
	s := *m.Weights
	s.Entries = slices.DeleteFunc(slices.Clone(s.Entries), func(e flamegraph.Entry) bool {
		at := int(e.Key.Endpoint)
		return at == 0 || at >= len(m.Served) || m.Served[at].Name == "" || !match(m.Served[at].Name)
	})
	for i := range s.Entries { // of objects only the sum of all is exact
		w := &s.Entries[i].Weights
		w.AllocSeen, w.AllocTicks, w.AllocTotal = 0, 0, 0
	}
	m.Weights = &s
}

// errTooFew means that too few allocations were seen to say which code makes them: measure for longer.
var errTooFew = errors.New("too few allocations were seen")

// enough fails when a metric can't be told from what was measured.
func (m Measured) enough(metric flamegraph.Metric) error {
	if a := m.Weights.Allocations(); metric == flamegraph.Allocations && !a.Enough() {
		return fmt.Errorf("allocations of pid %d: %w: %d objects were allocated, in %d instants of reading a stack, and %d are needed; measure for longer, or with a higher --lock-rate",
			m.Process.PID, errTooFew, a.Objects, a.Ticks, flamegraph.MinAllocTicks)
	}
	return nil
}

// newProfile returns a pprof profile with the sample types wall-time, cpu-time and gvl-wait in ns, and samples; where enough
// allocations were seen to tell them apart, alloc-objects too, an estimate (flamegraph.AllocEstimate). Functions are
// distinguished by label, file and first line; locations by function and line, so the line view works. The mapping of a
// location is where its code comes from: the program's own under its title, "gem rack 2.2.7", "ruby stdlib". Names are
// flamegraph.Printable, for `go tool pprof` writes them to terminals as they are. It fails when the profile is not valid,
// which would be a bug here.
func newProfile(m Measured) (*profile.Profile, error) {
	b := profileBuilder{
		m: m, mapping: &profile.Mapping{ID: 1, File: mappingFile(m.Process), HasFunctions: true, HasFilenames: true, HasLineNumbers: true},
		functions: make(map[functionKey]*profile.Function),
		locations: make(map[sampler.FrameID]*profile.Location),
		byLine:    make(map[lineKey]*profile.Location),
		mappings:  make(map[string]*profile.Mapping),
		labels:    make(map[sampler.ThreadID]threadLabels),
	}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "wall-time", Unit: "nanoseconds"}, {Type: "cpu-time", Unit: "nanoseconds"},
			{Type: "gvl-wait", Unit: "nanoseconds"}, {Type: "samples", Unit: "count"},
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
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: "alloc-objects", Unit: "count"})
		p.Comments = append(p.Comments, fmt.Sprintf("ddtop: alloc-objects is an estimate from %d instants, ± %.0f %%; its sum, %d, is exact",
			a.Ticks, 100*a.Error(), a.Objects))
	}
	b.p = p
	b.mappings[b.mapping.File] = b.mapping
	for _, e := range m.ordered(m.Served != nil) {
		b.add(e)
	}
	if err := p.CheckValid(); err != nil {
		return nil, fmt.Errorf("pprof profile of pid %d: %w", m.Process.PID, err)
	}
	return p, nil
}

// WriteProfile writes newProfile's result in the gzip-compressed form that `go tool pprof` opens.
func WriteProfile(w io.Writer, m Measured) error {
	p, err := newProfile(m)
	if err != nil {
		return err
	}
	return p.Write(w)
}

// mappingFile is the program's name, printable.
func mappingFile(p sampler.Process) string {
	if p.Title != "" {
		return flamegraph.Printable(p.Title)
	}
	return "ruby"
}

func comments(m Measured) []string {
	c := []string{fmt.Sprintf("ddtop: pid %d, %s", m.Process.PID, flamegraph.Printable(m.Process.RubyDescription))}
	if n := m.Weights.Overflow; n > 0 {
		c = append(c, fmt.Sprintf("ddtop: %d additions had more distinct stacks than are kept; they are under %s", n, noStackName))
	}
	if d := m.Weights.Dropped; d.WallNS > 0 {
		c = append(c, fmt.Sprintf("ddtop: %d ns of wall time came too late for the window and are missing", d.WallNS))
	}
	return c
}

type functionKey struct {
	label, file string
	first       int32
}

type lineKey struct {
	function uint64
	line     int32
	mapping  uint64
}

type threadLabels struct {
	tid, name, id, ractor string
}

type profileBuilder struct {
	m         Measured
	p         *profile.Profile
	mapping   *profile.Mapping // of the program's own code: the first one is a profile's main program
	mappings  map[string]*profile.Mapping
	functions map[functionKey]*profile.Function
	locations map[sampler.FrameID]*profile.Location
	byLine    map[lineKey]*profile.Location
	labels    map[sampler.ThreadID]threadLabels
	frames    []sampler.FrameID
	// objects gives the objects allocated of each entry; nil: not enough of them were seen.
	objects func(flamegraph.Weights) int64
}

func (b *profileBuilder) add(e flamegraph.Entry) {
	b.frames = b.m.Dict.Frames(e.Key.Stack, b.frames[:0])
	if len(b.frames) == 0 {
		b.frames = append(b.frames, 0)
	}
	s := &profile.Sample{
		Value:    []int64{e.Weights.WallNS, e.Weights.CPUNS, e.Weights.WaitNS, e.Weights.Samples},
		Location: make([]*profile.Location, len(b.frames)),
		Label:    map[string][]string{labelState: {e.Key.State.String()}},
	}
	some := s.Value[0]|s.Value[1]|s.Value[2]|s.Value[3] != 0
	if b.objects != nil {
		n := b.objects(e.Weights)
		s.Value = append(s.Value, n)
		some = some || n != 0
	}
	if !some {
		return // blame alone, which pprof has no sample type for
	}
	for i, f := range b.frames {
		s.Location[i] = b.location(f)
	}
	if f := b.m.Dict.Frame(b.frames[0]); f.Origin != sampler.OriginUnknown {
		s.Label[labelOrigin] = []string{f.Origin.String()}
		if f.Gem != "" {
			s.Label[labelGem] = []string{flamegraph.Printable(f.Gem)}
		}
	}
	l := b.threadLabels(e.Key.Thread)
	s.Label[labelThreadID] = []string{l.tid}
	s.Label[labelDdtopID] = []string{l.id}
	if l.name != "" {
		s.Label[labelThreadName] = []string{l.name}
	}
	if l.ractor != "" {
		s.Label[labelRactor] = []string{l.ractor}
	}
	b.serving(s.Label, e.Key.Endpoint)
	b.p.Sample = append(b.p.Sample, s)
}

// serving adds the labels of whom the thread worked for.
func (b *profileBuilder) serving(labels map[string][]string, id flamegraph.EndpointID) {
	if int(id) >= len(b.m.Served) {
		return
	}
	s := &b.m.Served[id]
	if s.Name != "" {
		labels[labelEndpoint] = []string{flamegraph.Printable(s.Name)}
	}
	if s.Span != 0 {
		labels[labelSpan] = []string{strconv.FormatUint(s.Span, 10)}
	}
	if s.RootSpan != 0 {
		labels[labelRootSpan] = []string{strconv.FormatUint(s.RootSpan, 10)}
	}
}

func (b *profileBuilder) threadLabels(id sampler.ThreadID) threadLabels {
	if l, ok := b.labels[id]; ok {
		return l
	}
	l := threadLabels{id: strconv.FormatUint(uint64(id), 10)}
	l.tid = "#" + l.id
	if info, ok := b.m.Dict.Thread(id); ok {
		l.name = flamegraph.Printable(info.Name)
		if l.name == "" && info.Main {
			l.name = "main"
		}
		if info.TID != 0 {
			l.tid = strconv.Itoa(int(info.TID))
		}
		l.ractor = strconv.FormatUint(uint64(info.Ractor), 10)
	}
	b.labels[id] = l
	return l
}

func (b *profileBuilder) location(id sampler.FrameID) *profile.Location {
	if l, ok := b.locations[id]; ok {
		return l
	}
	f := b.m.Dict.Frame(id)
	if id == 0 {
		f = sampler.Frame{Label: noStackName, Name: noStackName}
	}
	fn := b.function(f)
	m := b.mappingOf(f)
	k := lineKey{fn.ID, f.Line, m.ID}
	l, ok := b.byLine[k]
	if !ok {
		l = &profile.Location{ID: uint64(len(b.p.Location) + 1), Mapping: m, Line: []profile.Line{{Function: fn, Line: int64(f.Line)}}}
		b.p.Location = append(b.p.Location, l)
		b.byLine[k] = l
	}
	b.locations[id] = l
	return l
}

// mappingOf returns the mapping that stands for a frame's origin.
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
	k := functionKey{flamegraph.Printable(f.Label), flamegraph.Printable(fileOf(f)), f.FirstLine}
	if fn, ok := b.functions[k]; ok {
		return fn
	}
	fn := &profile.Function{
		ID: uint64(len(b.p.Function) + 1), Name: k.label, SystemName: flamegraph.Printable(f.Name), Filename: k.file, StartLine: int64(f.FirstLine),
	}
	b.p.Function = append(b.p.Function, fn)
	b.functions[k] = fn
	return fn
}

func fileOf(f sampler.Frame) string {
	if f.AbsolutePath != "" {
		return f.AbsolutePath
	}
	return f.Path
}
