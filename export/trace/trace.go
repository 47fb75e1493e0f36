// Package trace writes events in order of time: Chrome's trace events, Firefox profiles, and lines of JSON.
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
	// maxTrace limits how many entries a Trace has. An entry takes at most 48 bytes. Entries beyond the limit are
	// dropped (Trace.CutNS).
	maxTrace = 2 << 20
	// maxTraceWords limits how many different texts that describe states a Trace keeps.
	maxTraceWords = 1 << 16
	// maxCPUBack limits how many of a thread's latest spans are searched, to find the span in which CPU time was used.
	maxCPUBack = 256
	// traceMergeNS limits the length of merged spans, in ns. Adjacent spans of a thread are merged if the thread does
	// the same thing in both, and is in a state that needs no CPU.
	traceMergeNS = 1_000_000_000
	// tracePointNS is the shortest time between two points of a counter that changes with every sample, in ns.
	tracePointNS = 100_000_000
)

// Trace keeps intervals and events in order of time, for formats with a time axis: Firefox Profiler and Chrome trace.
// Its times by thread, stack and state are the same as in all other exports, to the ns, because all exports read the
// same stream. CPU time comes from a flamegraph.Collector, for which a Trace is a flamegraph.Sink. A Trace is not safe
// for concurrent use.
type Trace struct {
	gvl.Ignore
	process sampler.Process
	dict    *sampler.Dictionary
	threads map[sampler.ThreadID]*traceThread
	words   map[string]uint32
	texts   []string // the text with each number; number 0 is ""
	entries int
	slots   map[int]*traceThread
	// locks has, for each ractor, the times in which threads held its GVL, in order of time.
	locks map[sampler.RactorID][]lockSpan

	waiting []tracePoint
	memory  []tracePoint
	cpu     []tracePoint // CPU time of the whole process since its start, in ns
	objects []tracePoint // objects allocated since the process's start
	cycles  Cycles

	// exactly has the intervals in which ddtop has seen all changes of the GVL.
	exactly []traceInterval

	firstNS, lastNS int64
	// CutNS is the time from which on entries are dropped because maxTrace is reached. It is 0 if nothing was
	// dropped.
	CutNS int64
	// Notes are the notes that the user wrote during the measurement.
	Notes []sampler.Note
}

// tracePoint is the value of a counter at a time in ns.
type tracePoint struct{ atNS, value int64 }

type traceInterval struct{ fromNS, toNS int64 }

// traceWait is a wait for the GVL whose beginning and end are exactly known.
type traceWait struct {
	fromNS, toNS        int64
	handoverNS, noCPUNS int64
	first, last         sampler.ThreadID
}

// Cycle is a garbage collection whose beginning was seen by a sample.
type Cycle struct {
	AtNS   int64
	Reason uint32
	Minor  bool
}

// Cycles lists the garbage collections whose beginning was seen by a sample.
type Cycles struct {
	List []Cycle
	// Left is how many collections are not in the list because the list was full.
	Left  uint64
	count uint64
	known bool
}

// Take adds a garbage collection to the list if one has begun since the last sample. Before this, it calls the function
// room with the time of the sample. If room returns false, the list is full, and Take only counts the collection. Call
// Take only for a sample s in which ddtop has read the collector's state.
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

// traceSpan is an interval in which a thread had one stack and one state. It includes the CPU time that the thread
// used.
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
	// earlyNS is CPU time that was reported before the thread had a span.
	earlyNS int64
	// detail is the last Detail that the thread had in each state. words has the number of the text that describes this
	// Detail.
	detail [gvl.NumStates]gvl.Detail
	words  [gvl.NumStates]uint32
	waits  []traceWait
	served []servedSpan
	// endedNS is when the last sample that listed the thread was taken. It is zero while samples still list the thread.
	endedNS int64
}

// New returns an empty Trace of the target p. The IDs in its samples belong to d. Attach the Trace to the stream before
// the Collector. The Collector passes CPU time to the Trace, which must already have the spans to which it adds this
// time.
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

// Waited adds a wait for the GVL if its beginning and end are exactly known.
func (t *Trace) Waited(w *gvl.Wait) {
	if w.Exact && w.Thread != 0 && t.room(w.FromNS) { // a thread that no sample listed has no track
		th := t.thread(w.Thread)
		th.waits = append(th.waits, traceWait{w.FromNS, w.ToNS, w.HandoverNS, w.NoCPUNS, w.FirstHolder, w.LastHolder})
	}
}

// Ended notes that a thread has ended: no sample since atNS has listed it.
func (t *Trace) Ended(slot int, atNS int64) {
	if th := t.slots[slot]; th != nil {
		th.endedNS = atNS
		delete(t.slots, slot)
	}
}

// known adds an interval in which ddtop has seen all changes of the GVL.
func (t *Trace) known(fromNS, toNS int64) {
	if n := len(t.exactly); n > 0 && t.exactly[n-1].toNS == fromNS {
		t.exactly[n-1].toNS = toNS
	} else if t.room(fromNS) {
		t.exactly = append(t.exactly, traceInterval{fromNS, toNS})
	}
}

// Lock adds an interval in which a thread held a GVL.
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

// point adds a value to a counter. It drops the value if less than eachNS has passed since the previous point. If
// eachNS is zero, it also drops a value that equals the previous one.
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

// room reports whether another entry fits into the Trace. If the entry fits, room counts it. If it is the first entry
// that does not fit, room sets CutNS to atNS.
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

// describe returns the number of the text that describes an interval's state. It returns 0 if the state needs no
// description. The details of a state change rarely, so describe makes a new text only if they have changed.
func (t *Trace) describe(th *traceThread, i *gvl.Interval) uint32 {
	switch i.State {
	case gvl.Running, gvl.Native, gvl.Sleeping:
		return 0
	}
	d := i.Detail
	d.DeadlineNS = 0
	if i.State == gvl.Waiting && i.ResolutionNS == 0 {
		// The text is the same before and after the thread was chosen as the next holder, because the span's wait shows
		// when it was chosen.
		d.Wait = gvl.WaitQueue
	}
	if th.words[i.State] != 0 && th.detail[i.State] == d {
		return th.words[i.State]
	}
	// The text must not contain a duration, because the span itself shows how long it is.
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

// Add adds a thread's CPU time to its spans. A flamegraph.Collector calls it.
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

// addCPU adds CPU time to the last span with the same stack and state. If there is no such span, it adds the time to
// the thread's last span. If the thread has no span yet, the time is added to earlyNS.
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

// onCPU reports whether a thread in the state s can use a CPU all the time. Spans of such states are not merged.
func onCPU(s gvl.State) bool {
	return s == gvl.Running || s == gvl.GC || s == gvl.Native
}

// text returns the description with number n.
func (t *Trace) text(n uint32) string { return t.texts[n] }

// ordered returns the threads that have spans. The main thread is first, and the others follow by ID.
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

// stateSpans merges adjacent spans of a thread that have the same state, and returns the result. A merged span has the
// stack of the last span in it. The result has no CPU time.
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

// wait returns the wait for the GVL that overlaps the span s, if the wait's ends are exactly known. It returns nil if
// there is none. Call it for the spans of a thread in order. The parameter from is the index in th.waits at which the
// search begins. The result next is the index to pass for the next span.
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

// lockSpan is an interval in which a thread held its ractor's GVL. The ID 0 means a thread that no sample listed.
type lockSpan struct {
	fromNS, toNS int64
	thread       sampler.ThreadID
	stack        sampler.StackID
}
