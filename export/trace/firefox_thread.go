package trace

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// firefoxBuilder makes the tables of a thread.
type firefoxBuilder struct {
	t       *Trace
	dict    *sampler.Dictionary // marks the names of uncertain frames
	base    int64
	out     *firefoxThread
	strings firefoxStrings
	stacks  map[firefoxStackKey]int
	frames  map[firefoxFrameKey]int
	funcs   map[flamegraph.FuncKey]int
	gems    map[string]int
	ids     []sampler.FrameID
}

// firefoxStackKey identifies a node of the stack table: the node of its caller, and its frame.
type firefoxStackKey struct {
	prefix, frame int // prefix is -1 if there is none
}

type firefoxFrameKey struct {
	fn, line, category int
}

func newFirefoxBuilder(t *Trace, th *traceThread, base int64) *firefoxBuilder {
	dict := t.dict.Marked()
	info, _ := dict.Thread(th.id)
	out := &firefoxThread{
		Name: flamegraph.Printable(gvl.ThreadName(th.id, dict)), Main: info.Main, PID: strconv.Itoa(t.process.PID), TID: tidOf(th.id, info),
		ProcessName: export.ProgramName(t.process), ProcessType: "default", PausedRanges: []struct{}{}, Strings: []string{},
		Samples:       firefoxSamples{WeightType: "tracing-ms"},
		Stacks:        newFirefoxTable("prefix", "frame"),
		Frames:        newFirefoxTable("address", "inlineDepth", "category", "subcategory", "func", "nativeSymbol", "innerWindowID", "implementation", "line", "column"),
		Funcs:         newFirefoxTable("name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber", "columnNumber"),
		Resources:     newFirefoxTable("lib", "name", "host", "type"),
		NativeSymbols: newFirefoxTable("address", "functionSize", "libIndex", "name"),
		Markers:       newFirefoxTable("category", "data", "name", "startTime", "endTime", "phase"),
		Register:      firefoxMS(th.spans[0].fromNS - base),
	}
	if info.GoneNS != 0 {
		gone := firefoxMS(max(info.GoneNS, th.spans[len(th.spans)-1].toNS) - base)
		out.Unregister = &gone
	}
	b := &firefoxBuilder{
		t: t, dict: dict, base: base, out: out, strings: firefoxStrings{out, make(map[string]int)}, stacks: make(map[firefoxStackKey]int),
		frames: make(map[firefoxFrameKey]int), funcs: make(map[flamegraph.FuncKey]int), gems: make(map[string]int),
	}
	// In this format, a sample has the CPU time that was used since the previous sample. So the Firefox Profiler
	// ignores the CPU time of the first sample. An additional sample of zero length comes first, so that no CPU time is
	// lost.
	first := th.spans[0]
	b.sample(traceSpan{fromNS: first.fromNS, toNS: first.fromNS, stack: first.stack, state: first.state})
	for _, s := range th.spans {
		b.sample(s)
	}
	at := 0
	for _, e := range th.stateSpans() {
		var w *traceWait
		w, at = th.wait(&e, at)
		b.marker(e, w)
	}
	for i := range th.served {
		s := &th.served[i]
		name := servedName(dict, s)
		b.out.mark(int(gvl.Running), b.strings.of(name), "Request", name, firefoxMS(s.fromNS-base), firefoxMS(s.toNS-base))
	}
	return b
}

func (b *firefoxBuilder) sample(s traceSpan) {
	x := &b.out.Samples
	x.Length++
	x.Stack = append(x.Stack, b.stack(s.stack, int(s.state)))
	x.Time = append(x.Time, firefoxMS(s.toNS-b.base))
	x.Weight = append(x.Weight, firefoxMS(s.toNS-s.fromNS))
	x.CPUDelta = append(x.CPUDelta, s.cpuNS)
}

// stack returns the node of a stack in the stack table. The category of the stack's innermost frame is the state.
func (b *firefoxBuilder) stack(id sampler.StackID, state int) int {
	b.ids = b.dict.Frames(id, b.ids[:0])
	if len(b.ids) == 0 {
		b.ids = append(b.ids, 0)
	}
	node := -1
	for i, f := range slices.Backward(b.ids) {
		fr := b.dict.Frame(f)
		if f == 0 {
			fr = sampler.Frame{Label: flamegraph.NoStack}
		}
		category := firefoxOrigins + int(min(fr.Origin, sampler.NumOrigins-1))
		if i == 0 {
			category = state
		}
		node = b.node(firefoxStackKey{node, b.frame(fr, category)})
	}
	return node
}

func (b *firefoxBuilder) node(k firefoxStackKey) int {
	n, ok := b.stacks[k]
	if !ok {
		n = b.out.Stacks.add(orNull(k.prefix, 0), k.frame)
		b.stacks[k] = n
	}
	return n
}

// orNull returns n, or nil if n is below least. nil becomes null in JSON.
func orNull[T int | int32](n, least T) any {
	if n < least {
		return nil
	}
	return n
}

func (b *firefoxBuilder) frame(f sampler.Frame, category int) int {
	k := firefoxFrameKey{b.function(f), int(f.Line), category}
	n, ok := b.frames[k]
	if !ok {
		n = b.out.Frames.add(-1, 0, category, 0, k.fn, nil, 0, nil, orNull(f.Line, 1), nil)
		b.frames[k] = n
	}
	return n
}

func (b *firefoxBuilder) function(f sampler.Frame) int {
	k := flamegraph.FuncKey{Label: flamegraph.Printable(f.Label), File: flamegraph.Printable(f.File()), Line: f.FirstLine}
	n, ok := b.funcs[k]
	if !ok {
		file := -1
		if k.File != "" {
			file = b.strings.of(k.File)
		}
		n = b.out.Funcs.add(b.strings.of(k.Label), false, false, b.resource(f), orNull(file, 0), orNull(f.FirstLine, 1), nil)
		b.funcs[k] = n
	}
	return n
}

// resource returns the index of a function's gem, or −1 if the function belongs to no gem.
func (b *firefoxBuilder) resource(f sampler.Frame) int {
	if f.Gem == "" {
		return -1
	}
	n, ok := b.gems[f.Gem]
	if !ok {
		n = b.out.Resources.add(nil, b.strings.of("gem "+f.Gem), nil, firefoxResourceLibrary)
		b.gems[f.Gem] = n
	}
	return n
}

// marker adds a marker for the span e if the thread waited or ran the garbage collector during e. Running and idle time
// gets no marker, because the samples show this time already. If e is part of a wait for the GVL whose ends are exactly
// known, w is this wait. Otherwise w is nil.
func (b *firefoxBuilder) marker(e traceSpan, w *traceWait) {
	var kind string
	switch e.state {
	case gvl.Waiting:
		kind = "GVL wait"
	case gvl.GC:
		kind = "GC"
	case gvl.Stalled:
		kind = "Stalled"
	case gvl.IO:
		kind = "IO"
	case gvl.Lock:
		kind = "Lock"
	default:
		return
	}
	what := b.t.text(e.words)
	if w != nil {
		what += b.waited(w)
	}
	b.out.mark(int(e.state), b.strings.of(kind), kind, flamegraph.Printable(what), firefoxMS(e.fromNS-b.base), firefoxMS(e.toNS-b.base))
}

// waited describes which threads held the GVL during a wait, and the parts of the wait: ", held by report-2 and last
// by main, 20 µs of hand-over, 3 ms without a CPU".
func (b *firefoxBuilder) waited(w *traceWait) (text string) {
	switch {
	case w.first != 0 && w.last != 0 && w.first != w.last:
		text = ", held by " + gvl.ThreadName(w.first, b.dict) + " and last by " + gvl.ThreadName(w.last, b.dict)
	case w.first != 0 || w.last != 0:
		text = ", held by " + gvl.ThreadName(cmp.Or(w.first, w.last), b.dict)
	}
	if w.handoverNS > 0 {
		text += ", " + units.ProseDuration(w.handoverNS) + " of hand-over"
	}
	if w.noCPUNS > 0 {
		text += ", " + units.ProseDuration(w.noCPUNS) + " without a CPU"
	}
	return text
}
