package export

import (
	"io"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/sampler"
)

// dumpTime is RFC 3339 with all nine digits of nanoseconds.
const dumpTime = "2006-01-02T15:04:05.000000000Z07:00"

// Dump is a thread dump: the JSON of `ddtop dump`. The field names are a contract (docs/reference/json.md). Pointers are null in
// JSON where Ruby or the kernel has no value.
type Dump struct {
	PID   int    `json:"pid"`
	Title string `json:"title"`
	// program is what people call the process.
	program string
	Ruby    DumpRuby `json:"ruby"`
	// Time is the sample's wall-clock time, RFC 3339 with nanoseconds; MonotonicNS the same as CLOCK_MONOTONIC.
	Time        string `json:"time"`
	MonotonicNS int64  `json:"monotonic_ns"`
	// ReadNS is how long the reading took: the dump is an instant give or take that.
	ReadNS int64 `json:"read_ns"`
	// PauseNS is for how long the target stood still for the dump; 0: it was not stopped.
	PauseNS int64 `json:"pause_ns"`
	// Stopped: a signal or a debugger had stopped the process. Frozen: its cgroup was frozen.
	Stopped bool         `json:"stopped"`
	Frozen  bool         `json:"frozen"`
	Ractors []DumpRactor `json:"ractors"`
	// Deadlocks are cycles of threads that wait for each other.
	Deadlocks []DumpDeadlock `json:"deadlocks"`
	// Locks are what threads wait for in Mutexes, Monitors, Queues, ConditionVariables, joins and Ractors.
	Locks   []DumpLock   `json:"locks"`
	Threads []DumpThread `json:"threads"`
	// NativeThreads are those that Ruby does not know, with their CPU time since they started; NewDump leaves it empty,
	// because nothing in a sample says so.
	NativeThreads []account.StatNative `json:"native_threads"`
	// SuspendedFibers counts those in Threads; null where they were not looked for (SetFibers), as in a recording.
	SuspendedFibers *DumpSuspended `json:"suspended_fibers"`
	// Findings are what was wrong in the MeasuredNS before the dump; none were looked for when that is 0.
	MeasuredNS int64                 `json:"measured_ns"`
	Findings   []account.StatFinding `json:"findings"`
	GC         DumpGC                `json:"gc"`
	// Alloc is what was allocated in the MeasuredNS before the dump, by class.
	Alloc account.StatAlloc `json:"alloc"`
	Reads DumpReads         `json:"reads"`

	texts []string // the states in words, parallel to Threads
	// sinceNS is when the states began as far as seen, and lasted for how long, in the words of texts; parallel to Threads.
	// leastNS is for how long they are known to have lasted.
	sinceNS, leastNS []int64
	lasted           []string
	ownOnly          bool
	// leftOut are the threads that are not told of; nil: none. It is parallel to Threads.
	leftOut []bool
}

// DumpRuby describes the target's Ruby. JIT is null without one.
type DumpRuby struct {
	Version     string  `json:"version"`
	Description string  `json:"description"`
	JIT         *string `json:"jit"`
}

// DumpRactor is one ractor and its GVL.
type DumpRactor struct {
	ID  sampler.RactorID `json:"id"`
	GVL DumpGVL          `json:"gvl"`
}

// DumpGVL is who holds a GVL and who waits for it. Owner and Handover are null when there is none.
type DumpGVL struct {
	Owner *sampler.ThreadID `json:"owner"`
	// Handover is the thread chosen as the next holder, which does not run yet.
	Handover *sampler.ThreadID `json:"handover"`
	// Waiting is the queue, first in line first. When Torn, the queue changed while it was read, and it holds the
	// threads that were seen queued, in no certain order.
	Waiting []sampler.ThreadID `json:"waiting"`
	// WaitingCount is the number of waiters; on Ruby 2.5 it is known without the queue.
	WaitingCount int  `json:"waiting_count"`
	Torn         bool `json:"torn"`
}

// DumpThread is one thread.
type DumpThread struct {
	ID     sampler.ThreadID `json:"id"`
	TID    *int32           `json:"tid"`
	Name   *string          `json:"name"`
	Main   bool             `json:"main"`
	Ractor sampler.RactorID `json:"ractor"`
	// fullName is the name for people: sampler.ThreadInfo.FullName.
	fullName string
	// Status is Ruby's word, State ddtop's; Detail's keys depend on the state (docs/reference/states.md).
	Status string         `json:"status"`
	State  string         `json:"state"`
	Detail map[string]any `json:"detail"`
	// Serving is the request or job that it works for; null: none, or it could not be told.
	Serving *account.StatServing `json:"serving"`
	// StateNS is for how long the state has lasted, as far as seen.
	StateNS int64 `json:"state_ns"`
	// StateBound says what StateNS is of that: the thread may have left the state and come back, or been in it before it was seen first.
	StateBound gvl.Bound `json:"state_bound"`
	// CPUNS is the native thread's CPU time since it started; null when the kernel was not asked.
	CPUNS *int64 `json:"cpu_ns"`
	// Frames are the running fiber's, innermost first; Fibers those that resumed it, outward.
	Frames []DumpFrame `json:"frames"`
	Fibers []DumpFiber `json:"fibers"`
	// Suspended are the thread's fibers that are in neither, with the most at one stack first; empty where they were not
	// looked for.
	Suspended []DumpSuspendedFibers `json:"suspended_fibers"`
	// Truncated: the stack was deeper than the limit; Omitted frames are missing in its middle.
	Truncated bool   `json:"truncated"`
	Omitted   uint32 `json:"omitted"`
	// Partial: the stack changed while it was read and its inner end is missing. Failed: no stack could be read. Stale:
	// the frames are of an earlier sample.
	Partial bool `json:"partial"`
	Failed  bool `json:"failed"`
	Stale   bool `json:"stale"`
}

// DumpFiber is the stack of a fiber that resumed the next inner one.
type DumpFiber struct {
	Frames []DumpFrame `json:"frames"`
}

// DumpFrame is one line of a backtrace. Path and AbsolutePath are null where Ruby says nil.
type DumpFrame struct {
	Label        string  `json:"label"`
	Name         string  `json:"name"`
	Path         *string `json:"path"`
	AbsolutePath *string `json:"absolute_path"`
	Line         int32   `json:"line"`
	C            bool    `json:"c"`
	Uncertain    bool    `json:"uncertain"`
	// Origin is app, gem, stdlib, core, eval or unknown; Gem is name and version of a gem, else null.
	Origin string  `json:"origin"`
	Gem    *string `json:"gem"`

	own     bool
	library string // of what is not own
}

// DumpReads counts what happened to the reads since the attach.
type DumpReads struct {
	Torn    uint64 `json:"torn"`
	Partial uint64 `json:"partial"`
	Failed  uint64 `json:"failed"`
	Retried uint64 `json:"retried"`
	// Pauses is how often the target was stopped for a sample (--pause), PausesCut how many of those samples do not show one
	// instant.
	Pauses    uint64 `json:"pauses"`
	PausesCut uint64 `json:"pauses_cut"`
}

// NewDump builds a thread dump of one sample, of stack depth. states are the verdicts on s.Threads and parallel to
// them; a thread without one is "unknown". The Dump keeps nothing of s.
func NewDump(p sampler.Process, dict *sampler.Dictionary, s *sampler.Sample, states []gvl.ThreadState) *Dump {
	d := &Dump{
		PID: p.PID, Title: p.Title, program: ProgramName(p),
		Ruby:        DumpRuby{Version: p.RubyVersion, Description: p.RubyDescription, JIT: nonEmpty(p.JIT)},
		Time:        p.WallTime(s.TimeNS).Format(dumpTime),
		MonotonicNS: s.TimeNS, ReadNS: s.ReadNS, PauseNS: s.PauseNS, Stopped: s.Proc.Stopped, Frozen: s.Proc.Frozen,
		Ractors:   make([]DumpRactor, 0, len(s.Ractors)),
		Deadlocks: []DumpDeadlock{}, Locks: []DumpLock{},
		NativeThreads: []account.StatNative{}, Findings: []account.StatFinding{}, Alloc: account.StatAlloc{Classes: []account.StatAllocClass{}},
		Threads: make([]DumpThread, 0, len(s.Threads)),
		GC:      dumpGC(s),
		Reads:   DumpReads{s.Reads.Torn, s.Reads.Partial, s.Reads.Failed, s.Reads.Retried, s.Reads.Pauses, s.Reads.PausesCut},
	}
	verdict := Verdicts(s, states)
	for i := range s.Ractors {
		d.Ractors = append(d.Ractors, NewDumpRactor(&s.Ractors[i], s, verdict))
	}
	all := make([]gvl.ThreadState, len(s.Threads))
	for i := range s.Threads {
		all[i] = verdict(i)
		d.Threads = append(d.Threads, dumpThread(&s.Threads[i], all[i], dict))
		d.texts = append(d.texts, stateText(all[i], dict))
		d.sinceNS, d.lasted = append(d.sinceNS, all[i].SinceNS), append(d.lasted, all[i].Lasted().Prose())
		d.leastNS = append(d.leastNS, all[i].LeastNS())
	}
	d.contention(all, dict)
	return d
}

// Verdicts gives the verdict on each thread of a sample: unknown if states has none.
func Verdicts(s *sampler.Sample, states []gvl.ThreadState) func(i int) gvl.ThreadState {
	return func(i int) gvl.ThreadState {
		if i < len(states) {
			return states[i]
		}
		return gvl.ThreadState{Thread: s.Threads[i].ID, Ractor: s.Threads[i].Ractor, Detail: gvl.Detail{FD: -1, Reason: gvl.ReasonNotSampled}}
	}
}

// SetMeasured adds what was found wrong in the ns before the dump. A state that was there at the beginning may have begun
// at any time before: it has lasted at least as long.
func (d *Dump) SetMeasured(ns int64, findings []account.StatFinding) {
	d.MeasuredNS = ns
	for i, text := range d.texts {
		t := &d.Threads[i]
		if d.sinceNS[i] > d.MonotonicNS-ns || t.StateBound == gvl.AtLeast {
			continue
		}
		if t.StateBound == gvl.AtMost {
			t.StateNS = d.leastNS[i] // it may have left the state meanwhile
		}
		t.StateBound = gvl.AtLeast
		if t.StateNS == 0 { // nothing is known
			text = strings.Replace(text, " ("+d.lasted[i]+")", "", 1)
			d.texts[i] = strings.Replace(text, " "+d.lasted[i], "", 1)
			continue
		}
		d.texts[i] = strings.Replace(text, d.lasted[i], gvl.Bounded{NS: t.StateNS, Bound: gvl.AtLeast}.Prose(), 1)
	}
	d.Findings = append([]account.StatFinding{}, findings...)
}

// NewDumpRactor says who holds the GVL of a ractor and who waits for it. verdict gives the state of a thread of s by its place.
func NewDumpRactor(r *sampler.Ractor, s *sampler.Sample, verdict func(int) gvl.ThreadState) DumpRactor {
	g := DumpGVL{Waiting: append([]sampler.ThreadID{}, r.Queue...), WaitingCount: int(r.Waiting), Torn: r.Torn}
	listed := false
	for i := range s.Threads {
		t, v := &s.Threads[i], verdict(i)
		if t.Ractor != r.ID {
			continue
		}
		listed = listed || t.ID == r.OwnerEnd
		switch {
		// A read that spans a switch can show two holders; the later one counts.
		case v.State.Held() && (g.Owner == nil || t.ID == r.OwnerEnd):
			g.Owner = &t.ID
		case v.State == gvl.Waiting && v.Detail.Wait == gvl.WaitHandover && (g.Handover == nil || t.ID == r.OwnerEnd):
			g.Handover = &t.ID
		}
		if r.Torn && t.Bits&sampler.BitQueued != 0 {
			g.Waiting = append(g.Waiting, t.ID)
		}
	}
	if g.Owner == nil && r.OwnerEnd != 0 && !listed {
		g.Owner = &r.OwnerEnd // a thread that the list did not hold yet, or no longer
	}
	g.Owner, g.Handover = copied(g.Owner), copied(g.Handover)
	g.WaitingCount = max(g.WaitingCount, len(g.Waiting))
	return DumpRactor{ID: r.ID, GVL: g}
}

func dumpThread(t *sampler.Thread, v gvl.ThreadState, dict *sampler.Dictionary) DumpThread {
	out := DumpThread{
		ID: t.ID, Ractor: t.Ractor, Main: t.Bits&sampler.BitMain != 0,
		Status: t.Status.String(), State: v.State.String(), Detail: v.Detail.JSON(v.State, dict), StateNS: v.Lasted().NS, StateBound: v.Lasted().Bound,
		Frames: dumpFrames(dict, t.Stack), Fibers: make([]DumpFiber, 0, len(t.Resumers)), Suspended: []DumpSuspendedFibers{},
		Truncated: t.Quality&sampler.StackTruncated != 0, Omitted: t.Omitted,
		Partial: t.Quality&sampler.StackPartial != 0, Failed: t.Quality&sampler.StackFailed != 0,
		Stale: t.Quality&sampler.StackFresh == 0 && t.Stack != 0,
	}
	if q, ok := account.ServingOf(t.Serving, v.AtNS, dict); ok {
		out.Serving = &q
	}
	if t.TID != 0 {
		out.TID = copied(&t.TID)
	}
	if info, ok := dict.Thread(t.ID); ok {
		out.Main = out.Main || info.Main
		if info.HasName {
			out.Name, out.fullName = &info.Name, info.FullName()
		}
	}
	if t.Kernel.CPUAtNS != 0 {
		out.CPUNS = copied(&t.Kernel.CPUNS)
	}
	if t.Quality&sampler.StackUncertainTop != 0 && len(out.Frames) > 0 {
		out.Frames[0].Uncertain = true
	}
	for _, f := range t.Resumers {
		out.Fibers = append(out.Fibers, DumpFiber{Frames: dumpFrames(dict, f)})
	}
	return out
}

func dumpFrames(dict *sampler.Dictionary, stack sampler.StackID) []DumpFrame {
	ids := dict.Frames(stack, nil)
	out := make([]DumpFrame, 0, len(ids))
	for _, id := range ids {
		f := dict.Frame(id)
		out = append(out, DumpFrame{
			own: f.Own(), library: f.Library(), Label: f.Label, Name: f.Name, Path: nonEmpty(f.Path), AbsolutePath: nonEmpty(f.AbsolutePath),
			Line: f.Line, C: f.C, Uncertain: f.Uncertain, Origin: f.Origin.String(), Gem: nonEmpty(f.Gem),
		})
	}
	return out
}

// FoldLibraries makes the text fold frames that are not the program's own, if on (flamegraph.FoldStack). JSON has all of them.
func (d *Dump) FoldLibraries(on bool) { d.ownOnly = on }

// OnlyEndpoints leaves out the threads that do not work for a route or a class of jobs that match says yes to, nor have suspended
// fibers that do, and the other suspended fibers; nil: none. Who holds the GVL and locks is told all the same. It belongs behind
// SetFibers.
func (d *Dump) OnlyEndpoints(match func(name string) bool) {
	if match == nil {
		return
	}
	d.leftOut = make([]bool, len(d.Threads))
	for i := range d.Threads {
		t := &d.Threads[i]
		t.Suspended = onlyEndpointsOf(t.Suspended, match)
		d.leftOut[i] = !isFor(t.Serving, match) && len(t.Suspended) == 0
	}
	if f := d.SuspendedFibers; f != nil {
		f.Requests = 0
		for i := range d.Threads {
			for _, x := range d.Threads[i].Suspended {
				f.Requests += len(x.Serving)
			}
		}
	}
}

// isFor reports whether what is worked for is an endpoint that match says yes to.
func isFor(q *account.StatServing, match func(name string) bool) bool {
	return q != nil && q.Endpoint != nil && match(*q.Endpoint)
}

// onlyEndpointsOf leaves of suspended fibers those that wait for an endpoint that match says yes to.
func onlyEndpointsOf(list []DumpSuspendedFibers, match func(name string) bool) []DumpSuspendedFibers {
	var out []DumpSuspendedFibers
	for _, x := range list {
		x.Serving = slices.DeleteFunc(slices.Clone(x.Serving), func(q account.StatServing) bool { return !isFor(&q, match) })
		if x.Count = len(x.Serving); x.Count > 0 {
			out = append(out, x)
		}
	}
	return out
}

// WriteJSON writes the dump as one indented JSON object and a newline.
func (d *Dump) WriteJSON(w io.Writer) error { return WriteJSON(w, d.shown()) }

// shown is the dump without the threads that are left out.
func (d *Dump) shown() *Dump {
	if d.leftOut == nil {
		return d
	}
	c := *d
	c.Threads = []DumpThread{}
	for i := range d.Threads {
		if !d.leftOut[i] {
			c.Threads = append(c.Threads, d.Threads[i])
		}
	}
	return &c
}

func nonEmpty(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
