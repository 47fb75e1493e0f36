package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// Chrome's format needs a thread id for each row. Some rows, such as the rows for locks, represent no native thread.
// These constants are the first ids of such rows. Each kind of row has chromeTIDs ids. The ids are larger than every
// thread id of Linux, whose limit is 2^22.
const (
	chromeLockTID   = 1_000_000_000 // rows for the GVLs of ractors, by the ractor's number
	chromeThreadTID = 1_500_000_000 // rows for Ruby threads that have no native thread, by ddtop's id of the thread
	chromeServedTID = 500_000_000   // rows for the requests and jobs of threads, by ddtop's id of the thread
	chromeTIDs      = 400_000_000
)

// These are the phases of events. A phase is what Chrome's format calls the type of an event.
const (
	chromeComplete = "X"
	chromeInstant  = "i"
	chromeCounter  = "C"
	chromeMetadata = "M"
)

// chromeEvent is an event in Chrome's trace format. Times are in µs.
type chromeEvent struct {
	Name     string        `json:"name"`
	Category string        `json:"cat,omitempty"`
	Phase    string        `json:"ph"`
	TS       chromeMicros  `json:"ts"`
	Dur      *chromeMicros `json:"dur,omitempty"`
	PID      int           `json:"pid"`
	TID      int           `json:"tid"`
	Scope    string        `json:"s,omitempty"`
	Color    string        `json:"cname,omitempty"`
	// Stack is the key of the event's stack in stackFrames, the trace's list of stacks.
	Stack string `json:"sf,omitempty"`
	Args  any    `json:"args,omitempty"`
}

// chromeArgs are the arguments of a slice, which is an interval on a track. The last four are only for a wait for the
// GVL that exact mode measured. Such a wait can have several slices.
type chromeArgs struct {
	At   string `json:"at,omitempty"`
	In   string `json:"in,omitempty"`
	What string `json:"what,omitempty"`
	// Begin is the thread that held the GVL when the wait began. End is the thread that held it last before the wait
	// ended.
	Begin    string        `json:"held_at_begin_by,omitempty"`
	End      string        `json:"held_at_end_by,omitempty"`
	Handover *chromeMicros `json:"hand_over_us,omitempty"`
	NoCPU    *chromeMicros `json:"without_cpu_us,omitempty"`
}

// chromeFrame is a node of stackFrames, the trace's tree of stacks.
type chromeFrame struct {
	Category string `json:"category"`
	Name     string `json:"name"`
	Parent   string `json:"parent,omitempty"`
}

// chromeMicros is a time in ns. In JSON it is written in µs with all its digits.
type chromeMicros int64

func (m chromeMicros) MarshalJSON() ([]byte, error) {
	b := strconv.AppendInt(nil, int64(m)/1000, 10)
	if rest := int64(m) % 1000; rest > 0 {
		b = fmt.Appendf(b, ".%03d", rest)
	}
	return b, nil
}

// chromeColors are names of colours that chrome://tracing knows. Perfetto ignores them and chooses its own.
var chromeColors = [gvl.NumStates]string{
	gvl.Unknown: "grey", gvl.Running: "thread_state_running", gvl.Stalled: "terrible", gvl.GC: "detailed_memory_dump",
	gvl.Waiting: "thread_state_runnable", gvl.Native: "rail_response", gvl.IO: "thread_state_iowait", gvl.Lock: "bad",
	gvl.Parked: "thread_state_sleeping", gvl.Sleeping: "thread_state_sleeping",
}

// WriteChrome writes a trace in Chrome's trace event format, for https://ui.perfetto.dev and chrome://tracing. Each
// thread has a track with a slice for each state, and a track with a slice for each request or job. Another track shows
// which thread holds the GVL. Counters show the number of threads that wait for the GVL, CPU use, memory and
// allocations. Marks show notes and three kinds of beginnings: of collections, of threads, and of periods in which
// times are exactly known.
//
// If the ends of a wait are exactly known, its slice names the holders of the GVL. It contains a second slice, which
// begins when the thread was chosen as the next holder. Times are in µs since the first sample of all traces.
// WriteChrome streams its output, and keeps only the numbers of the stacks in memory.
func WriteChrome(w io.Writer, list []*Trace) error {
	base, start := traceStart(list)
	out := chromeWriter{w: bufio.NewWriter(w)}
	out.begin("{\"traceEvents\":[")
	other := map[string]string{"writer": "ddtop", "start": start.Format(time.RFC3339Nano)}
	var stacks []chromeStacks
	for i, t := range list {
		c := chromeProcess{t: t, dict: t.dict.Marked(), base: base, tids: make(map[int]bool), out: &out}
		c.stacks = chromeStacks{c.dict, strconv.Itoa(i+1) + ".", make(map[sampler.StackID]struct{})}
		c.write()
		stacks = append(stacks, c.stacks)
		other[fmt.Sprintf("pid %d", t.process.PID)] = flamegraph.Printable(t.process.RubyDescription)
		for _, text := range t.comments() {
			other[fmt.Sprintf("missing of pid %d", t.process.PID)] = text
		}
	}
	out.begin("],\"displayTimeUnit\":\"ms\",\"stackFrames\":{")
	for _, s := range stacks {
		s.write(&out)
	}
	out.begin("},\"otherData\":")
	out.value(other)
	out.text("}\n")
	return cmp.Or(out.err, out.w.Flush())
}

// chromeWriter writes JSON piece by piece. After an error of a write, it writes nothing more.
type chromeWriter struct {
	w     *bufio.Writer
	first bool // true until the list has its first element
	err   error
}

func (o *chromeWriter) text(s string) {
	if o.err == nil {
		_, o.err = o.w.WriteString(s)
	}
}

// begin writes s, the text with which a list begins. It also sets first, so that no comma precedes the next element.
func (o *chromeWriter) begin(s string) {
	o.text(s)
	o.first = true
}

// next writes a comma before each element of a list except the first. Call it before each element.
func (o *chromeWriter) next() {
	if !o.first {
		o.text(",")
	}
	o.first = false
}

func (o *chromeWriter) value(v any) {
	text, err := json.Marshal(v)
	if o.err = cmp.Or(o.err, err); o.err == nil {
		_, o.err = export.ASCIIControls(o.w).Write(text)
	}
}

// chromeStacks collects the stacks to which the events of a process refer. The keys of these stacks begin with prefix,
// which differs between processes.
type chromeStacks struct {
	dict   *sampler.Dictionary
	prefix string
	used   map[sampler.StackID]struct{}
}

func (s *chromeStacks) key(id sampler.StackID) string {
	return s.prefix + strconv.FormatUint(uint64(id), 10)
}

// use returns the key by which an event refers to its stack, and notes that this stack must be written. It returns ""
// if the event has no stack.
func (s *chromeStacks) use(id sampler.StackID) string {
	if _, frame := s.dict.Stack(id); frame == 0 {
		return ""
	}
	s.used[id] = struct{}{}
	return s.key(id)
}

// write writes the tree of stacks, each node once.
func (s *chromeStacks) write(out *chromeWriter) {
	done := make(map[sampler.StackID]struct{}, len(s.used))
	for _, id := range slices.Sorted(maps.Keys(s.used)) {
		for id != 0 {
			if _, ok := done[id]; ok {
				break
			}
			done[id] = struct{}{}
			parent, frame := s.dict.Stack(id)
			f := s.dict.Frame(frame)
			node := chromeFrame{Category: f.Origin.String(), Name: flamegraph.Printable(f.Label)}
			if parent != 0 {
				node.Parent = s.key(parent)
			}
			out.next()
			out.value(s.key(id))
			out.text(":")
			out.value(node)
			id = parent
		}
	}
}

type chromeProcess struct {
	t      *Trace
	dict   *sampler.Dictionary // this dictionary marks the names of uncertain frames
	base   int64
	out    *chromeWriter
	tids   map[int]bool // the track numbers in use
	stacks chromeStacks
}

func (c *chromeProcess) add(e chromeEvent) {
	e.PID = c.t.process.PID
	c.out.next()
	c.out.value(e)
}

// write writes the names of all tracks, and then the events of each track in order of time.
func (c *chromeProcess) write() {
	t := c.t
	c.add(chromeEvent{Name: "process_name", Phase: chromeMetadata, Args: map[string]any{"name": export.ProgramName(c.t.process)}})
	ractors, threads := slices.Sorted(maps.Keys(t.locks)), t.ordered()
	for i, ractor := range ractors {
		name := "GVL"
		if len(ractors) > 1 {
			name = fmt.Sprintf("GVL of ractor %d", ractor)
		}
		c.nameThread(lockTID(ractor), name, i)
	}
	tids := make([]int, len(threads))
	for i, th := range threads {
		tids[i] = c.tid(th.id)
		c.nameThread(tids[i], flamegraph.Printable(gvl.ThreadName(th.id, c.dict)), len(ractors)+2*i)
		if len(th.served) > 0 {
			c.nameThread(servedTID(th.id), flamegraph.Printable(gvl.ThreadName(th.id, c.dict))+" requests", len(ractors)+2*i+1)
		}
	}
	for _, ractor := range ractors {
		for _, h := range t.locks[ractor] {
			c.slice(lockTID(ractor), c.holder(h.thread), "gvl", "", h.fromNS, h.toNS, h.stack, c.where(h.stack))
		}
	}
	for i, th := range threads {
		c.thread(tids[i], th)
		c.served(th)
	}
	c.counters()
	c.marks()
}

func lockTID(r sampler.RactorID) int { return chromeLockTID + int(r)%chromeTIDs }

// holder returns the name of the thread that held the GVL. The ID 0 stands for a thread that no sample listed.
func (c *chromeProcess) holder(id sampler.ThreadID) string {
	if id == 0 {
		return "a thread that lived too short"
	}
	return flamegraph.Printable(gvl.ThreadName(id, c.dict))
}

// thread writes the track of a thread.
func (c *chromeProcess) thread(tid int, th *traceThread) {
	t := c.t
	spans, at := th.stateSpans(), 0
	if len(spans) > 0 && spans[0].fromNS > t.firstNS {
		c.mark(tid, "started", spans[0].fromNS)
	}
	var w *traceWait
	for i := range spans {
		e := &spans[i]
		args := c.where(e.stack)
		args.What = flamegraph.Printable(t.text(e.words))
		if w, at = th.wait(e, at); w != nil {
			handover, noCPU := chromeMicros(w.handoverNS), chromeMicros(w.noCPUNS)
			args.Handover, args.NoCPU = &handover, &noCPU
			if w.first != 0 {
				args.Begin = c.holder(w.first)
			}
			if w.last != 0 {
				args.End = c.holder(w.last)
			}
		}
		c.slice(tid, e.state.String(), "state", chromeColors[e.state%gvl.NumStates], e.fromNS, e.toNS, e.stack, args)
		if w == nil {
			continue
		}
		if from, to := max(w.toNS-w.handoverNS, e.fromNS), min(w.toNS, e.toNS); w.handoverNS > 0 && from < to {
			c.slice(tid, "hand-over", "wait", "", from, to, 0, chromeArgs{})
		}
	}
	if th.endedNS != 0 && th.endedNS < t.lastNS {
		c.mark(tid, "died", th.endedNS)
	}
}

// mark writes an event without a length, a mark, into the track of a thread.
func (c *chromeProcess) mark(tid int, name string, atNS int64) {
	c.add(chromeEvent{Name: name, Category: "thread", Phase: chromeInstant, Scope: "t", TS: chromeMicros(atNS - c.base), TID: tid})
}

// tid returns the number of a thread's track. This is the id of its native thread, unless an earlier thread's track has
// this number, because Ruby reuses native threads. In that case tid returns a number made from ddtop's own id.
func (c *chromeProcess) tid(id sampler.ThreadID) int {
	if info, ok := c.dict.Thread(id); ok && info.TID != 0 && !c.tids[int(info.TID)] {
		c.tids[int(info.TID)] = true
		return int(info.TID)
	}
	return chromeThreadTID + int(id)%chromeTIDs
}

func (c *chromeProcess) nameThread(tid int, name string, order int) {
	c.add(chromeEvent{Name: "thread_name", Phase: chromeMetadata, TID: tid, Args: map[string]any{"name": name}})
	c.add(chromeEvent{Name: "thread_sort_index", Phase: chromeMetadata, TID: tid, Args: map[string]any{"sort_index": order}})
}

func (c *chromeProcess) slice(tid int, name, category, color string, fromNS, toNS int64, stack sampler.StackID, args chromeArgs) {
	dur := chromeMicros(toNS - fromNS)
	e := chromeEvent{Name: name, Category: category, Phase: chromeComplete, TS: chromeMicros(fromNS - c.base), Dur: &dur, TID: tid, Color: color, Stack: c.stacks.use(stack)}
	if args != (chromeArgs{}) {
		e.Args = &args
	}
	c.add(e)
}

// where returns the arguments that show where in the code an event happened: the label and the place of the stack's
// innermost frame.
func (c *chromeProcess) where(stack sampler.StackID) (args chromeArgs) {
	if _, id := c.dict.Stack(stack); id != 0 {
		f := c.dict.Frame(id)
		args.In = flamegraph.Printable(f.Label)
		if file := f.File(); file != "" {
			if args.At = flamegraph.Printable(file); f.Line > 0 {
				args.At += ":" + strconv.Itoa(int(f.Line))
			}
			args.In, _ = gvl.AddLine(args.In, args.At)
		}
	}
	return args
}

func (c *chromeProcess) counter(name, key string, atNS int64, value float64) {
	if atNS < c.base {
		return // the counter was read before the first sample, so it is outside the trace
	}
	c.add(chromeEvent{Name: name, Phase: chromeCounter, TS: chromeMicros(atNS - c.base), Args: map[string]any{key: value}})
}

func (c *chromeProcess) counters() {
	t := c.t
	for _, p := range t.waiting {
		c.counter("waiting for the GVL", "threads", p.atNS, float64(p.value))
	}
	for _, p := range t.memory {
		c.counter("memory", "MB", p.atNS, float64(p.value)/1e6)
	}
	// A rate is measured between two points of the list. The trace shows it from the earlier point on.
	rate := func(name, key string, list []tracePoint, scale float64) {
		for i := 1; i < len(list); i++ {
			a, b := list[i-1], list[i]
			c.counter(name, key, a.atNS, float64(b.value-a.value)/float64(b.atNS-a.atNS)*scale)
		}
	}
	rate("CPU", "%", t.cpu, 100)
	rate("allocations", "objects/s", t.objects, 1e9)
}

// marks writes the marks of the process: beginnings of collections, exactly known time, and notes.
func (c *chromeProcess) marks() {
	for _, g := range c.t.cycles.List {
		name, args := "major GC", map[string]any{"by": sampler.GCTrigger(g.Reason)}
		if g.Minor {
			name = "minor GC"
		} else if why := sampler.GCMajorBy(g.Reason); why != "" {
			args["major_by"] = why
		}
		c.add(chromeEvent{Name: name, Category: "gc", Phase: chromeInstant, Scope: "p", TS: chromeMicros(g.AtNS - c.base), Args: args})
	}
	for _, x := range c.t.exactly {
		c.global("exact from here on", "exact", x.fromNS)
		c.global("exact up to here", "exact", x.toNS)
	}
	for _, n := range c.t.Notes {
		if n.AtNS < c.base {
			continue
		}
		c.global(flamegraph.Printable(n.Text), "note", n.AtNS)
	}
}

// global writes a mark across all tracks.
func (c *chromeProcess) global(name, category string, atNS int64) {
	c.add(chromeEvent{Name: name, Category: category, Phase: chromeInstant, Scope: "g", TS: chromeMicros(atNS - c.base)})
}
