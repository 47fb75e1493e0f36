package export

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// Thread ids of a Chrome trace for what has no native thread's. They are past any that Linux gives (2^22).
const (
	chromeLockTID   = 1_000_000_000 // the GVL of a ractor, by its number
	chromeThreadTID = 1_500_000_000 // a thread without a native one, by ddtop's id
	chromeTIDs      = 400_000_000
)

// The phases of events.
const (
	chromeComplete = "X"
	chromeInstant  = "i"
	chromeCounter  = "C"
	chromeMetadata = "M"
)

type chromeTrace struct {
	Events []chromeEvent     `json:"traceEvents"`
	Unit   string            `json:"displayTimeUnit"`
	Other  map[string]string `json:"otherData"`
}

// chromeEvent is one event. Times are in µs.
type chromeEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"`
	TS       chromeMicros   `json:"ts"`
	Dur      *chromeMicros  `json:"dur,omitempty"`
	PID      int            `json:"pid"`
	TID      int            `json:"tid"`
	Scope    string         `json:"s,omitempty"`
	Color    string         `json:"cname,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// chromeMicros is a time in ns, written as µs with all its digits.
type chromeMicros int64

func (m chromeMicros) MarshalJSON() ([]byte, error) {
	b := strconv.AppendInt(nil, int64(m)/1000, 10)
	if rest := int64(m) % 1000; rest > 0 {
		b = fmt.Appendf(b, ".%03d", rest)
	}
	return b, nil
}

// chromeColors are names of colours that chrome://tracing knows; Perfetto chooses its own.
var chromeColors = [gvl.NumStates]string{
	gvl.Unknown: "grey", gvl.Running: "thread_state_running", gvl.Stalled: "terrible", gvl.GC: "detailed_memory_dump",
	gvl.Waiting: "thread_state_runnable", gvl.Native: "rail_response", gvl.IO: "thread_state_iowait", gvl.Lock: "bad",
	gvl.Parked: "thread_state_sleeping", gvl.Sleeping: "thread_state_sleeping",
}

// WriteChrome writes a trace in Chrome's trace event format, for https://ui.perfetto.dev and chrome://tracing: a track a
// thread with a slice a state, a track that shows who holds the GVL, counters for the threads that wait for it, CPU use,
// memory and allocations, and marks for the begin of collections and for notes. Times are µs since the first sample of
// all.
func WriteChrome(w io.Writer, list []Measured) error {
	base, start, err := traceStart(list)
	if err != nil {
		return err
	}
	t := chromeTrace{Events: []chromeEvent{}, Unit: "ms", Other: map[string]string{"writer": "ddtop", "start": start.Format(time.RFC3339Nano)}}
	for _, m := range list {
		c := chromeProcess{m: m, base: base, tids: make(map[int]bool)}
		c.write()
		t.Events = append(t.Events, c.events...)
		t.Other[fmt.Sprintf("pid %d", m.Process.PID)] = flamegraph.Printable(m.Process.RubyDescription)
		for _, text := range traceComments(m) {
			t.Other[fmt.Sprintf("missing of pid %d", m.Process.PID)] = text
		}
	}
	return writeCompactJSON(w, &t)
}

type chromeProcess struct {
	m      Measured
	base   int64
	events []chromeEvent
	tids   map[int]bool // given
}

func (c *chromeProcess) add(e chromeEvent) {
	e.PID = c.m.Process.PID
	c.events = append(c.events, e)
}

func (c *chromeProcess) write() {
	t := c.m.Trace
	c.add(chromeEvent{Name: "process_name", Phase: chromeMetadata, Args: map[string]any{"name": mappingFile(c.m.Process)}})
	holds := t.locks
	for i, ractor := range slices.Sorted(maps.Keys(holds)) {
		tid, name := chromeLockTID+int(ractor)%chromeTIDs, "GVL"
		if len(holds) > 1 {
			name = fmt.Sprintf("GVL of ractor %d", ractor)
		}
		c.nameThread(tid, name, i)
		for _, h := range holds[ractor] {
			c.slice(tid, flamegraph.Printable(gvl.ThreadName(h.thread, c.m.Dict)), "gvl", "", h.fromNS, h.toNS, c.where(h.stack))
		}
	}
	for i, th := range t.ordered() {
		tid := c.tid(th.id)
		c.nameThread(tid, flamegraph.Printable(gvl.ThreadName(th.id, c.m.Dict)), len(holds)+i)
		for _, e := range th.stateSpans() {
			args := c.where(e.stack)
			if what := t.text(e.words); what != "" {
				args["what"] = flamegraph.Printable(what)
			}
			c.slice(tid, e.state.String(), "state", chromeColors[e.state%gvl.NumStates], e.fromNS, e.toNS, args)
		}
	}
	c.counters()
	c.marks()
	// Metadata first; within a track a slice before those that begin later, as the format asks for.
	slices.SortStableFunc(c.events, func(x, y chromeEvent) int {
		return cmp.Or(cmp.Compare(rankOf(x), rankOf(y)), cmp.Compare(x.TS, y.TS))
	})
}

func rankOf(e chromeEvent) int {
	if e.Phase == chromeMetadata {
		return 0
	}
	return 1
}

// tid returns the number of a thread's track: its native thread's, unless that was another thread's before, as Ruby uses
// native threads again.
func (c *chromeProcess) tid(id sampler.ThreadID) int {
	if info, ok := c.m.Dict.Thread(id); ok && info.TID != 0 && !c.tids[int(info.TID)] {
		c.tids[int(info.TID)] = true
		return int(info.TID)
	}
	return chromeThreadTID + int(id)%chromeTIDs
}

func (c *chromeProcess) nameThread(tid int, name string, order int) {
	c.add(chromeEvent{Name: "thread_name", Phase: chromeMetadata, TID: tid, Args: map[string]any{"name": name}})
	c.add(chromeEvent{Name: "thread_sort_index", Phase: chromeMetadata, TID: tid, Args: map[string]any{"sort_index": order}})
}

func (c *chromeProcess) slice(tid int, name, category, color string, fromNS, toNS int64, args map[string]any) {
	dur := chromeMicros(toNS - fromNS)
	c.add(chromeEvent{Name: name, Category: category, Phase: chromeComplete, TS: chromeMicros(fromNS - c.base), Dur: &dur, TID: tid, Color: color, Args: args})
}

// where names the innermost frame of a stack.
func (c *chromeProcess) where(stack sampler.StackID) map[string]any {
	args := make(map[string]any, 3)
	if _, id := c.m.Dict.Stack(stack); id != 0 {
		f := c.m.Dict.Frame(id)
		args["in"] = flamegraph.Printable(f.Label)
		if file := fileOf(f); file != "" {
			args["at"] = flamegraph.Printable(file) + ":" + strconv.Itoa(int(f.Line))
		}
	}
	return args
}

func (c *chromeProcess) counter(name, key string, atNS int64, value float64) {
	if atNS < c.base {
		return // read before the first sample
	}
	c.add(chromeEvent{Name: name, Phase: chromeCounter, TS: chromeMicros(atNS - c.base), Args: map[string]any{key: value}})
}

func (c *chromeProcess) counters() {
	t := c.m.Trace
	for _, p := range t.waiting {
		c.counter("waiting for the GVL", "threads", p.atNS, float64(p.value))
	}
	for _, p := range t.memory {
		c.counter("memory", "MB", p.atNS, float64(p.value)/1e6)
	}
	// A rate is shown from the begin of the stretch that it was measured over.
	rate := func(name, key string, list []tracePoint, scale float64) {
		for i := 1; i < len(list); i++ {
			a, b := list[i-1], list[i]
			c.counter(name, key, a.atNS, float64(b.value-a.value)/float64(b.atNS-a.atNS)*scale)
		}
	}
	rate("CPU", "%", t.cpu, 100)
	rate("allocations", "objects/s", t.objects, 1e9)
}

// marks adds the begin of collections and the notes.
func (c *chromeProcess) marks() {
	for _, g := range c.m.Trace.cycles {
		name, args := "major GC", map[string]any{"by": sampler.GCTrigger(g.reason)}
		if g.minor {
			name = "minor GC"
		} else if why := sampler.GCMajorBy(g.reason); why != "" {
			args["major_by"] = why
		}
		c.add(chromeEvent{Name: name, Category: "gc", Phase: chromeInstant, Scope: "p", TS: chromeMicros(g.atNS - c.base), Args: args})
	}
	for _, n := range c.m.Trace.Notes {
		if n.AtNS < c.base {
			continue
		}
		c.add(chromeEvent{Name: flamegraph.Printable(n.Text), Category: "note", Phase: chromeInstant, Scope: "g", TS: chromeMicros(n.AtNS - c.base)})
	}
}
