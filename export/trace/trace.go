// Package trace writes what happened in the order of time: Chrome's trace events, Firefox profiles, and lines of JSON.
package trace

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxTrace bounds the entries of a Trace; one takes 48 bytes at most. What comes past it is not kept (Trace.CutNS).
	maxTrace = 2 << 20
	// maxTraceWords bounds the distinct descriptions of states that are kept.
	maxTraceWords = 1 << 16
	// maxCPUBack bounds how far back CPU time looks for its span.
	maxCPUBack = 256
	// traceMergeNS is the length up to which spans are merged, in ns, if their thread does the same all the time
	// without a CPU.
	traceMergeNS = 1_000_000_000
	// tracePointNS is the distance of the points of counters that change with every sample.
	tracePointNS = 100_000_000
)

// Trace keeps what happened in the order of time, for formats with a time axis: Firefox Profiler and Chrome trace. It
// is a consumer of the stream, so that times by thread, stack and state equal every other export's to the ns. It takes
// CPU time as a flamegraph.Sink. Not safe for concurrent use.
type Trace struct {
	gvl.Ignore
	process sampler.Process
	dict    *sampler.Dictionary
	threads map[sampler.ThreadID]*traceThread
	words   map[string]uint32
	texts   []string // by number; 0 is ""
	entries int
	slots   map[int]*traceThread
	// locks has the holders of each ractor's GVL, in the order of time.
	locks map[sampler.RactorID][]lockSpan

	waiting []tracePoint
	memory  []tracePoint
	cpu     []tracePoint // of the whole process, ns since its start
	objects []tracePoint // allocated since its start
	cycles  Cycles

	// exactly are the intervals in which all changes of the GVL are known.
	exactly []traceStretch

	firstNS, lastNS int64
	// CutNS is the time from which nothing is kept because there is too much. It is 0 if everything is there.
	CutNS int64
	// Notes are the user's notes.
	Notes []sampler.Note
}

// tracePoint is a value at a time in ns.
type tracePoint struct{ atNS, value int64 }

type traceStretch struct{ fromNS, toNS int64 }

// traceWait is a wait for the GVL with exactly known ends.
type traceWait struct {
	fromNS, toNS        int64
	handoverNS, noCPUNS int64
	first, last         sampler.ThreadID
}

// Cycle is a collection that was seen to have begun.
type Cycle struct {
	AtNS   int64
	Reason uint32
	Minor  bool
}

// Cycles lists the collections that samples saw begin.
type Cycles struct {
	List []Cycle
	// Left is the number of unlisted collections.
	Left  uint64
	count uint64
	known bool
}

// Take lists a collection if one has begun since the last sample, and room reports that there is room for it. It may be
// called only if the collector of s was read.
func (c *Cycles) Take(s *sampler.Sample, room func(atNS int64) bool) {
	switch {
	case !c.known || c.count == s.GC.Count:
	case room(s.TimeNS):
		c.List = append(c.List, Cycle{s.TimeNS, s.GC.Reason, s.GC.Minor})
	default:
		c.Left++
	}
	c.known, c.count = true, s.GC.Count
}

// traceSpan is an interval in which a thread had one stack and state, with the CPU time used in it.
type traceSpan struct {
	fromNS, toNS int64
	cpuNS        int64
	stack        sampler.StackID
	words        uint32
	state        gvl.State
}

type traceThread struct {
	id    sampler.ThreadID
	spans []traceSpan
	// earlyNS is CPU time known before the first span.
	earlyNS int64
	// detail and words are the last details seen with each state.
	detail [gvl.NumStates]gvl.Detail
	words  [gvl.NumStates]uint32
	waits  []traceWait
	served []servedSpan
	// endedNS is when the thread was last listed.
	endedNS int64
}

// New returns an empty Trace of the target p, whose samples' IDs point into d. The Collector that gives it CPU time
// must be attached to the stream after it.
func New(p sampler.Process, d *sampler.Dictionary) *Trace {
	return &Trace{
		process: p, dict: d, threads: make(map[sampler.ThreadID]*traceThread), words: make(map[string]uint32), texts: []string{""},
		slots: make(map[int]*traceThread),
		locks: make(map[sampler.RactorID][]lockSpan),
	}
}

// Tick adds a sample.
func (t *Trace) Tick(k *gvl.Tick) {
	if t.firstNS == 0 {
		t.firstNS = k.TimeNS
	}
	t.lastNS = k.TimeNS
	if k.Changes.Known() && !k.First && !k.Gap {
		t.known(k.FromNS, k.ToNS)
	}
	waiting := int64(0)
	for i := range k.States {
		if k.States[i].State == gvl.Waiting {
			waiting++
		}
	}
	t.point(&t.waiting, k.TimeNS, waiting, 0)
	if k.GC.Valid {
		t.point(&t.objects, k.TimeNS, int64(k.GC.Allocated), tracePointNS)
		t.cycles.Take(k.Sample, t.room)
	}
	if p := &k.Proc; p.AtNS != 0 {
		t.point(&t.cpu, p.AtNS, p.UserNS+p.SystemNS, tracePointNS)
		t.point(&t.memory, p.AtNS, p.RSSBytes, tracePointNS)
	}
}

func (t *Trace) Interval(i *gvl.Interval) {
	th := t.thread(i.Thread)
	t.slots[i.Slot] = th
	t.serve(th, i)
	t.addSpan(th, traceSpan{fromNS: i.FromNS, toNS: i.ToNS, stack: i.Stack, state: i.State, words: t.describe(th, i)})
}

// Waited adds a wait with exactly known ends.
func (t *Trace) Waited(w *gvl.Wait) {
	if w.Exact && w.Thread != 0 && t.room(w.FromNS) { // a thread that no sample listed has no row
		th := t.thread(w.Thread)
		th.waits = append(th.waits, traceWait{w.FromNS, w.ToNS, w.HandoverNS, w.NoCPUNS, w.FirstHolder, w.LastHolder})
	}
}

// Ended notes that a thread is not listed from a time on.
func (t *Trace) Ended(slot int, atNS int64) {
	if th := t.slots[slot]; th != nil {
		th.endedNS = atNS
		delete(t.slots, slot)
	}
}

// known notes an interval in which all changes of the GVL are known.
func (t *Trace) known(fromNS, toNS int64) {
	if n := len(t.exactly); n > 0 && t.exactly[n-1].toNS == fromNS {
		t.exactly[n-1].toNS = toNS
	} else if t.room(fromNS) {
		t.exactly = append(t.exactly, traceStretch{fromNS, toNS})
	}
}

// Lock adds the holder of a GVL.
func (t *Trace) Lock(i *gvl.LockInterval) {
	if i.Thread == 0 && !i.Unlisted.Holds {
		return
	}
	list := t.locks[i.Ractor]
	if n := len(list); n > 0 && list[n-1].thread == i.Thread && list[n-1].toNS == i.FromNS {
		list[n-1].toNS, list[n-1].stack = i.ToNS, i.Stack
	} else if t.room(i.FromNS) {
		t.locks[i.Ractor] = append(list, lockSpan{i.FromNS, i.ToNS, i.Thread, i.Stack})
	}
}

// point adds a value that differs from the last one, at least eachNS after it.
func (t *Trace) point(list *[]tracePoint, atNS, value, eachNS int64) {
	if n := len(*list); n > 0 {
		if last := (*list)[n-1]; last.value == value && eachNS == 0 || atNS-last.atNS < max(eachNS, 1) {
			return
		}
	}
	if t.room(atNS) {
		*list = append(*list, tracePoint{atNS, value})
	}
}

// room reports whether another entry may be kept, and counts it.
func (t *Trace) room(atNS int64) bool {
	if t.entries >= maxTrace {
		if t.CutNS == 0 {
			t.CutNS = atNS
		}
		return false
	}
	t.entries++
	return true
}

func (t *Trace) thread(id sampler.ThreadID) *traceThread {
	th, ok := t.threads[id]
	if !ok {
		th = &traceThread{id: id}
		t.threads[id] = th
	}
	return th
}

// describe returns the number of the words for an interval's state, or 0 if the state says it all. They change rarely,
// so they are made when the details have changed.
func (t *Trace) describe(th *traceThread, i *gvl.Interval) uint32 {
	switch i.State {
	case gvl.Running, gvl.Native, gvl.Sleeping:
		return 0
	}
	d := i.Detail
	d.DeadlineNS = 0
	if i.State == gvl.Waiting && i.ResolutionNS == 0 {
		d.Wait = gvl.WaitQueue // from when on it was chosen, the wait says
	}
	if th.words[i.State] != 0 && th.detail[i.State] == d {
		return th.words[i.State]
	}
	// Without a duration, which the span has.
	text := gvl.Describe(gvl.ThreadState{Thread: i.Thread, State: i.State, Detail: d}, t.dict)
	text = strings.Replace(text, " "+units.ProseDuration(0), "", 1)
	n, ok := t.words[text]
	if !ok {
		if len(t.texts) >= maxTraceWords {
			return 0
		}
		n = uint32(len(t.texts))
		t.texts = append(t.texts, text)
		t.words[text] = n
	}
	th.detail[i.State], th.words[i.State] = d, n
	return n
}

// Add adds a thread's CPU time from a Collector.
func (t *Trace) Add(_ int64, k flamegraph.Key, w flamegraph.Weights) {
	if w.CPUNS > 0 {
		t.thread(k.Thread).addCPU(k, w.CPUNS)
	}
}

func (t *Trace) addSpan(th *traceThread, s traceSpan) {
	if n := len(th.spans); n > 0 && !onCPU(s.state) {
		last := &th.spans[n-1]
		if last.toNS == s.fromNS && last.stack == s.stack && last.state == s.state && last.words == s.words && s.toNS-last.fromNS <= traceMergeNS {
			last.toNS = s.toNS
			return
		}
	}
	if t.room(s.fromNS) {
		s.cpuNS, th.earlyNS = th.earlyNS, 0
		th.spans = append(th.spans, s)
	}
}

// addCPU gives CPU time to the last span with its stack and state, or to the last span of all. Before there is a span,
// the first one gets it.
func (th *traceThread) addCPU(k flamegraph.Key, ns int64) {
	n := len(th.spans)
	for i := n - 1; i >= max(n-maxCPUBack, 0); i-- {
		if s := &th.spans[i]; s.stack == k.Stack && s.state == k.State {
			s.cpuNS += ns
			return
		}
	}
	if n > 0 {
		th.spans[n-1].cpuNS += ns
	} else {
		th.earlyNS += ns
	}
}

// onCPU reports whether a thread in that state can use a CPU all the time.
func onCPU(s gvl.State) bool {
	return s == gvl.Running || s == gvl.GC || s == gvl.Native
}

// text returns the words with a number.
func (t *Trace) text(n uint32) string { return t.texts[n] }

// ordered returns the threads that have spans: the main thread, then the others by ID.
func (t *Trace) ordered() []*traceThread {
	var out []*traceThread
	for _, th := range t.threads {
		if len(th.spans) > 0 {
			out = append(out, th)
		}
	}
	rank := func(th *traceThread) int {
		if info, ok := t.dict.Thread(th.id); ok && info.Main {
			return 0
		}
		return 1
	}
	slices.SortFunc(out, func(x, y *traceThread) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.id, y.id))
	})
	return out
}

// stateSpans returns a thread's time by state. It merges adjacent spans with the same state, and keeps the last stack.
// The spans have no CPU time.
func (th *traceThread) stateSpans() []traceSpan {
	var out []traceSpan
	for _, s := range th.spans {
		if n := len(out); n > 0 && out[n-1].toNS == s.fromNS && out[n-1].state == s.state && out[n-1].words == s.words {
			out[n-1].toNS, out[n-1].stack = s.toNS, s.stack
			continue
		}
		if s.toNS > s.fromNS {
			s.cpuNS = 0
			out = append(out, s)
		}
	}
	return out
}

// wait returns the exact wait that a span belongs to, or nil, and the place in waits to begin at for the next span.
// Spans come in order.
func (th *traceThread) wait(s *traceSpan, from int) (w *traceWait, next int) {
	if s.state != gvl.Waiting {
		return nil, from
	}
	for ; from < len(th.waits) && th.waits[from].toNS <= s.fromNS; from++ {
	}
	if from < len(th.waits) && th.waits[from].fromNS < s.toNS {
		return &th.waits[from], from
	}
	return nil, from
}

// lockSpan is an interval in which a thread held its ractor's GVL. Thread 0 stands for a thread that no sample listed.
type lockSpan struct {
	fromNS, toNS int64
	thread       sampler.ThreadID
	stack        sampler.StackID
}
