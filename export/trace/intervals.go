package trace

import (
	"encoding/json"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// intervalsVersion is the version of the format of the JSON lines. Other programs rely on the format
// (docs/reference/jsonl.md). The version changes if programs that read the old format cannot read the new one.
const intervalsVersion = 1

// maxListedThreads limits how many written threads an Intervals remembers, so that it writes each thread once. If there
// are more threads, it may write a thread a second time.
const maxListedThreads = 1 << 16

// These are the types of the JSON lines. The field "type" of a line contains the line's type. Other programs rely on
// the field names.
type (
	intervalsHeader struct {
		Type    string `json:"type"` // always "header"
		Format  string `json:"format"`
		Version int    `json:"version"`
		Ddtop   string `json:"ddtop"`
		PID     int    `json:"pid"`
		Program string `json:"program"`
		Ruby    string `json:"ruby_version"`
		JIT     string `json:"ruby_jit"`
		Machine string `json:"machine"`
		CPUs    int    `json:"cpus"`
		// Time is the wall-clock time at MonotonicNS.
		Time        time.Time `json:"time"`
		MonotonicNS int64     `json:"monotonic_ns"`
		StackRate   float64   `json:"stack_rate"`
		LockRate    float64   `json:"lock_rate"`
	}
	intervalsThread struct {
		Type   string           `json:"type"` // always "thread"
		ID     sampler.ThreadID `json:"id"`
		TID    *int32           `json:"tid"`
		Name   *string          `json:"name"`
		Main   bool             `json:"main"`
		Ractor sampler.RactorID `json:"ractor"`
	}
	intervalsFrame struct {
		Type  string          `json:"type"` // always "frame"
		ID    sampler.FrameID `json:"id"`
		Label string          `json:"label"`
		Path  string          `json:"path"`
		Line  int32           `json:"line"`
		C     bool            `json:"c"`
		// Uncertain is true if the frame is possibly wrong, or its line is. UncertainLine is true if only the line is
		// possibly wrong.
		Uncertain     bool    `json:"uncertain"`
		UncertainLine bool    `json:"uncertain_line"`
		Origin        string  `json:"origin"`
		Gem           *string `json:"gem"`
	}
	intervalsStack struct {
		Type   string            `json:"type"` // always "stack"
		ID     sampler.StackID   `json:"id"`
		Frames []sampler.FrameID `json:"frames"` // innermost first
	}
	intervalsInterval struct {
		Type   string           `json:"type"` // always "interval"
		Thread sampler.ThreadID `json:"thread"`
		State  string           `json:"state"`
		From   int64            `json:"begin_ns"`
		To     int64            `json:"end_ns"`
		// Resolution is how far the beginning of the interval can be wrong, in ns. It is 0 if the beginning is exact.
		Resolution int64               `json:"resolution_ns"`
		Stack      *sampler.StackID    `json:"stack"`
		Detail     map[string]any      `json:"detail"`
		Request    *report.StatServing `json:"request"`
	}
	intervalsWait struct {
		Type string `json:"type"` // always "wait"
		// Thread is the waiting thread. It is null if no sample listed the thread.
		Thread *sampler.ThreadID `json:"thread"`
		From   int64             `json:"begin_ns"`
		To     int64             `json:"end_ns"`
		// Least and Most are the shortest and the longest time that the wait can have lasted. Most is null if the wait
		// may have begun or ended outside the sampled time.
		Least int64   `json:"least_ns"`
		Most  *int64  `json:"most_ns"`
		After *string `json:"after"`
		// Exact is true if the beginning and the end of the wait are known to the microsecond. If it is false, the next
		// four fields are null. The fields that name holders are also null if no thread held the GVL.
		Exact    bool              `json:"exact"`
		Handover *int64            `json:"handover_ns"`
		NoCPU    *int64            `json:"no_cpu_ns"`
		First    *sampler.ThreadID `json:"first_holder"`
		Last     *sampler.ThreadID `json:"last_holder"`
		// Stack is the stack at the end of the wait. It is null if that stack is not known.
		Stack *sampler.StackID `json:"stack"`
	}
	intervalsGVL struct {
		Type    string            `json:"type"` // always "gvl"
		Ractor  sampler.RactorID  `json:"ractor"`
		From    int64             `json:"begin_ns"`
		To      int64             `json:"end_ns"`
		Holder  *sampler.ThreadID `json:"holder"`
		State   *string           `json:"state"`
		Stack   *sampler.StackID  `json:"stack"`
		Turn    *sampler.StackID  `json:"turn_stack"`
		Waiters int64             `json:"waiters"`
		// Unlisted is true if the holder is a thread that no sample listed. Holder is then null.
		Unlisted bool `json:"unlisted"`
	}
	intervalsGC struct {
		Type  string           `json:"type"` // always "gc"
		From  int64            `json:"begin_ns"`
		To    int64            `json:"end_ns"`
		Phase string           `json:"phase"`
		Stack *sampler.StackID `json:"stack"`
	}
	intervalsNative struct {
		Type   string           `json:"type"` // always "native"
		Thread sampler.ThreadID `json:"thread"`
		From   int64            `json:"begin_ns"`
		To     int64            `json:"end_ns"`
		Stack  *sampler.StackID `json:"stack"`
		// Functions are the C functions called by the stack's innermost frame, innermost first.
		Functions []report.DumpNativeFrame `json:"functions"`
		// Kernel describes what the kernel does for the innermost C function. It is null if that is not known.
		Kernel *string `json:"kernel"`
	}
	intervalsNote struct {
		Type string `json:"type"` // always "note"
		At   int64  `json:"at_ns"`
		Text string `json:"text"`
	}
	intervalsEnd struct {
		Type    string `json:"type"` // always "end"
		From    int64  `json:"begin_ns"`
		To      int64  `json:"end_ns"`
		Samples uint64 `json:"samples"`
		Lost    uint64 `json:"lost"`
		// NotSampled is how much of the time had no samples, in ns. In this time, the state of each thread is unknown.
		NotSampled int64   `json:"not_sampled_ns"`
		Reason     *string `json:"reason"`
	}
)

// Intervals writes a stream as lines of JSON (docs/reference/jsonl.md) while it is measured: intervals of threads,
// waits for the GVL, holders of the GVL, and collections. It writes each thread, frame and stack once, before the first
// line that refers to it. In memory it keeps only the IDs of what it has written. The Dictionary's limits bound the
// number of these IDs. An Intervals is not safe for concurrent use.
type Intervals struct {
	gvl.Ignore
	dict   *sampler.Dictionary
	stream *stream.Stream
	enc    *json.Encoder
	err    error

	threads map[sampler.ThreadID]sampler.ThreadInfo
	frames  map[sampler.FrameID]struct{}
	stacks  map[sampler.StackID]struct{}
	buf     []sampler.FrameID
	// held is the latest hold of each ractor's GVL. It is not written yet, because a hold is written as one line after
	// it has ended.
	held map[sampler.RactorID]gvl.LockInterval
	gc   gvl.GCInterval // the collector's latest interval, which is not written yet
	// native finds the times in which a thread stays in the same C functions. Such times become lines of their own.
	native gvl.NativeStays

	samples, firstLost, lost uint64
	firstNS, lastNS          int64
}

// NewIntervals returns an Intervals for a stream of the target p, and writes the header. The IDs in the stream's
// samples belong to dict. version is the version of ddtop.
func NewIntervals(w io.Writer, s *stream.Stream, p sampler.Process, dict *sampler.Dictionary, version string) *Intervals {
	x := &Intervals{
		dict: dict, stream: s, enc: json.NewEncoder(export.ASCIIControls(w)), threads: make(map[sampler.ThreadID]sampler.ThreadInfo),
		frames: make(map[sampler.FrameID]struct{}), stacks: make(map[sampler.StackID]struct{}), held: make(map[sampler.RactorID]gvl.LockInterval),
	}
	s.Attach(x)
	x.put(intervalsHeader{
		Type: "header", Format: "ddtop-intervals", Version: intervalsVersion, Ddtop: version, PID: p.PID, Program: p.Title, Ruby: p.RubyVersion, JIT: p.JIT,
		Machine: p.Machine, CPUs: p.CPUs, Time: p.AttachedAt, MonotonicNS: p.AttachedNS, StackRate: p.StackRate, LockRate: p.LockRate,
	})
	return x
}

// Err returns the first error of a write, or nil. After an error, nothing more is written.
func (x *Intervals) Err() error { return x.err }

func (x *Intervals) put(line any) {
	if x.err == nil {
		x.err = x.enc.Encode(line)
	}
}

func (x *Intervals) Interval(i *gvl.Interval) {
	x.thread(i.Thread)
	line := intervalsInterval{
		Type: "interval", Thread: i.Thread, State: i.State.String(), From: i.FromNS, To: i.ToNS, Resolution: i.ResolutionNS, Stack: x.stack(i.Stack),
		Detail: i.Detail.JSON(i.State, x.dict),
	}
	if v, ok := account.ServingOf(i.Serving, i.ToNS, x.dict); ok {
		line.Request = &v
	}
	x.put(line)
}

// Waited writes a wait for the GVL as a line of JSON.
func (x *Intervals) Waited(w *gvl.Wait) {
	line := intervalsWait{Type: "wait", Thread: x.known(w.Thread), From: w.FromNS, To: w.ToNS}
	line.Least = w.LeastNS
	if !w.Open() {
		line.Most = &w.MostNS
	}
	if w.After != gvl.Unknown {
		after := w.After.String()
		line.After = &after
	}
	if line.Exact = w.Exact; w.Exact {
		line.Handover, line.NoCPU = &w.HandoverNS, &w.NoCPUNS
		line.First, line.Last = x.known(w.FirstHolder), x.known(w.LastHolder)
	}
	if w.Stack != 0 {
		line.Stack = x.stack(w.Stack)
	}
	x.put(line)
}

// known returns a pointer to a thread's ID for a JSON line. If the thread itself was not written yet, known writes it
// first. If id is zero, known returns nil, which becomes null in JSON.
func (x *Intervals) known(id sampler.ThreadID) *sampler.ThreadID {
	if id == 0 {
		return nil
	}
	x.thread(id)
	return &id
}

// Lock is called with a part of a hold of a ractor's GVL. If i continues the pending hold, Lock extends that hold.
// Otherwise Lock writes the pending hold, and i becomes the new pending hold.
func (x *Intervals) Lock(i *gvl.LockInterval) {
	before, ok := x.held[i.Ractor]
	if ok && before.ToNS == i.FromNS && before.Thread == i.Thread && before.State == i.State && before.Stack == i.Stack && before.Turn == i.Turn && before.Waiters == i.Waiters &&
		before.Unlisted == i.Unlisted {
		before.ToNS = i.ToNS
		x.held[i.Ractor] = before
		return
	}
	if ok {
		x.gvl(&before)
	}
	if i.Thread == 0 && i.Waiters == 0 && !i.Unlisted.Holds {
		delete(x.held, i.Ractor)
		return
	}
	x.held[i.Ractor] = *i
}

// gvl writes an interval in which a thread held a GVL or waited for it.
func (x *Intervals) gvl(i *gvl.LockInterval) {
	line := intervalsGVL{Type: "gvl", Ractor: i.Ractor, From: i.FromNS, To: i.ToNS, Waiters: i.Waiters, Unlisted: i.Unlisted.Holds}
	if i.Thread != 0 {
		x.thread(i.Thread)
		id, state := i.Thread, i.State.String()
		line.Holder, line.State, line.Stack = &id, &state, x.stack(i.Stack)
		if i.Turn != 0 {
			line.Turn = x.stack(i.Turn)
		}
	}
	x.put(line)
}

// Collecting is called with a part of the time in which the garbage collector ran. If i continues the pending interval
// of the collector, Collecting extends that interval. Otherwise it writes the pending interval, and i becomes the new
// pending interval.
func (x *Intervals) Collecting(i *gvl.GCInterval) {
	if x.gc.ToNS == i.FromNS && x.gc.Stack == i.Stack && x.gc.Mode == i.Mode {
		x.gc.ToNS = i.ToNS
		return
	}
	x.collected()
	x.gc = *i
}

func (x *Intervals) collected() {
	if x.gc.ToNS > x.gc.FromNS {
		d := gvl.Detail{GCMode: x.gc.Mode}.JSON(gvl.GC, nil)
		phase, _ := d["phase"].(string) // "" if it is not known
		x.put(intervalsGC{Type: "gc", From: x.gc.FromNS, To: x.gc.ToNS, Phase: phase, Stack: x.stack(x.gc.Stack)})
	}
	x.gc = gvl.GCInterval{}
}

// Tick counts a sample.
func (x *Intervals) Tick(k *gvl.Tick) {
	if x.samples == 0 {
		x.firstNS, x.firstLost = k.ToNS, k.Reads.Lost
	}
	x.samples++
	x.lastNS, x.lost = k.ToNS, k.Reads.Lost
	x.native.Feed(k, x.stayed)
}

// stayed writes the C functions in which a thread stayed. It also writes the time during which the thread certainly did
// not leave them.
func (x *Intervals) stayed(id sampler.ThreadID, stay *gvl.NativeStay) {
	stack := x.dict.NativeStack(&sampler.Thread{Stack: stay.Stack, Native: stay.Native})
	if stay.ToNS <= stay.FromNS || stack.Empty() {
		return
	}
	x.thread(id)
	x.put(intervalsNative{Type: "native", Thread: id, From: stay.FromNS, To: stay.ToNS, Stack: x.stack(stay.Stack),
		Functions: report.NewNativeFrames(stack.Frames), Kernel: report.TextOrNil(stack.Kernel)})
}

func (x *Intervals) Note(n sampler.Note) {
	x.put(intervalsNote{Type: "note", At: n.AtNS, Text: n.Text})
}

// Finish writes the pending lines and then the last line. Call it after the stream has finished. reason describes how
// the process ended. It is empty if the process did not end or the reason is not known.
func (x *Intervals) Finish(reason string) error {
	for _, ractor := range slices.Sorted(maps.Keys(x.held)) {
		i := x.held[ractor]
		x.gvl(&i)
	}
	x.collected()
	x.native.Finish(x.stayed)
	end := intervalsEnd{Type: "end", From: x.firstNS, To: x.lastNS, Samples: x.samples, Lost: x.lost - x.firstLost, NotSampled: x.stream.NotSampledNS()}
	if reason != "" {
		end.Reason = &reason
	}
	x.put(end)
	return x.err
}

// thread writes a line with a thread's data, unless the same data was written before.
func (x *Intervals) thread(id sampler.ThreadID) {
	info, _ := x.dict.Thread(id)
	info.ID, info.FirstSeenNS, info.GoneNS = id, 0, 0
	if before, ok := x.threads[id]; ok && before == info {
		return
	}
	if len(x.threads) >= maxListedThreads {
		clear(x.threads) // forget all threads, so those that still run are written once more
	}
	x.threads[id] = info
	line := intervalsThread{Type: "thread", ID: id, Main: info.Main, Ractor: info.Ractor}
	if info.TID != 0 {
		line.TID = &info.TID
	}
	if info.HasName {
		line.Name = &info.Name
	}
	x.put(line)
}

// stack returns a pointer to a stack's ID for a JSON line. If the stack or its frames were not written yet, stack
// writes them first. If id is zero, it returns nil, which becomes null in JSON.
func (x *Intervals) stack(id sampler.StackID) *sampler.StackID {
	if id == 0 {
		return nil
	}
	if _, ok := x.stacks[id]; ok {
		return &id
	}
	x.stacks[id] = struct{}{}
	x.buf = x.dict.Frames(id, x.buf[:0])
	for _, f := range x.buf {
		if _, ok := x.frames[f]; ok {
			continue
		}
		x.frames[f] = struct{}{}
		frame := x.dict.Frame(f)
		line := intervalsFrame{Type: "frame", ID: f, Label: frame.Label, Path: frame.Path, Line: frame.Line, C: frame.C, Uncertain: frame.Uncertain, UncertainLine: frame.UncertainLine,
			Origin: frame.Origin.String()}
		if frame.Gem != "" {
			line.Gem = &frame.Gem
		}
		x.put(line)
	}
	x.put(intervalsStack{Type: "stack", ID: id, Frames: append([]sampler.FrameID{}, x.buf...)})
	return &id
}
