package export

import (
	"io"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// dumpTime is the format of the time in a dump: RFC 3339 with all nine digits of nanoseconds.
const dumpTime = "2006-01-02T15:04:05.000000000Z07:00"

// Dump is a thread dump that can be written as text and as JSON.
type Dump struct {
	report.Dump

	// program is the displayed name of the process. fullNames are the displayed names of its threads
	// (sampler.ThreadInfo.FullName).
	program   string
	fullNames map[sampler.ThreadID]string

	texts []string // the states in words, parallel to Threads
	// The next three fields have an element for each thread of Threads. sinceNS is when the thread's state began, if
	// ddtop saw its beginning. leastNS is the least time for which the state must have lasted. lasted is the state's
	// length in words.
	sinceNS, leastNS []int64
	lasted           []string
	ownOnly          bool
	// leftOut is true for each thread of Threads that a filter leaves out of the dump. It is nil if there is no filter.
	leftOut []bool
	// nativeLocks are the locks of C code, as WriteText needs them. The field NativeLocks has the same locks for JSON.
	nativeLocks *sampler.NativeLocks
	dict        *sampler.Dictionary
}

// NewDump builds a thread dump of one sample that has all stacks (sampler.StackTick). states has a state for each of
// s.Threads, in the same order. If states is too short, the other threads are "unknown". The Dump keeps no reference to
// s.
func NewDump(p sampler.Process, dict *sampler.Dictionary, s *sampler.Sample, states []gvl.ThreadState) *Dump {
	d := &Dump{program: ProgramName(p), fullNames: make(map[sampler.ThreadID]string), Dump: report.Dump{
		PID: p.PID, Title: p.Title,
		Ruby:        report.DumpRuby{Version: p.RubyVersion, Description: p.RubyDescription, JIT: report.TextOrNil(p.JIT)},
		Time:        p.WallTime(s.TimeNS).Format(dumpTime),
		MonotonicNS: s.TimeNS, ReadNS: s.ReadNS, PauseNS: s.PauseNS, Stopped: s.Proc.Stopped, Frozen: s.Proc.Frozen,
		Ractors:   make([]report.DumpRactor, 0, len(s.Ractors)),
		Deadlocks: []report.DumpDeadlock{}, Locks: []report.DumpLock{},
		NativeThreads: []report.DumpNativeThread{}, Findings: []report.StatFinding{},
		Alloc:   report.StatAlloc{Classes: []report.StatAllocClass{}},
		Threads: make([]report.DumpThread, 0, len(s.Threads)),
		GC:      dumpGC(s),
		Reads: report.DumpReads{
			Torn: s.Reads.Torn, Partial: s.Reads.Partial, Failed: s.Reads.Failed, Retried: s.Reads.Retried,
			Pauses: s.Reads.Pauses, PausesCut: s.Reads.PausesCut,
		},
	}}
	verdict := Verdicts(s, states)
	for i := range s.Ractors {
		d.Ractors = append(d.Ractors, NewDumpRactor(&s.Ractors[i], s, verdict))
	}
	all := make([]gvl.ThreadState, len(s.Threads))
	for i := range s.Threads {
		all[i] = verdict(i)
		d.Threads = append(d.Threads, dumpThread(&s.Threads[i], all[i], dict))
		if info, ok := dict.Thread(s.Threads[i].ID); ok && info.HasName {
			d.fullNames[s.Threads[i].ID] = info.FullName()
		}
		d.texts = append(d.texts, stateText(all[i], dict))
		d.sinceNS, d.lasted = append(d.sinceNS, all[i].SinceNS), append(d.lasted, all[i].Lasted().Prose())
		d.leastNS = append(d.leastNS, all[i].LeastNS())
	}
	d.contention(all, dict)
	if s.NativeLocks != nil {
		d.SetNativeLocks(s.NativeLocks, dict)
	}
	return d
}

// Verdicts returns a function that returns the state of the thread with index i in a sample. If states has no element
// i, the state is unknown.
func Verdicts(s *sampler.Sample, states []gvl.ThreadState) func(i int) gvl.ThreadState {
	return func(i int) gvl.ThreadState {
		if i < len(states) {
			return states[i]
		}
		return gvl.ThreadState{Thread: s.Threads[i].ID, Ractor: s.Threads[i].Ractor, Detail: gvl.Detail{FD: -1, Reason: gvl.ReasonNotSampled}}
	}
}

// SetMeasured adds the findings of a measurement that began ns nanoseconds before the dump. If a thread was already in
// its state when the measurement began, the beginning of the state is unknown. For such a thread, the dump gives the
// least time for which the state must have lasted.
func (d *Dump) SetMeasured(ns int64, findings []report.StatFinding) {
	d.MeasuredNS = ns
	for i, text := range d.texts {
		t := &d.Threads[i]
		if d.sinceNS[i] > d.MonotonicNS-ns || t.StateBound == gvl.AtLeast {
			continue
		}
		if t.StateBound == gvl.AtMost {
			t.StateNS = d.leastNS[i] // a lower bound, because the thread may have left the state for a moment
		}
		t.StateBound = gvl.AtLeast
		if t.StateNS == 0 { // no duration is known
			text = strings.Replace(text, " ("+d.lasted[i]+")", "", 1)
			d.texts[i] = strings.Replace(text, " "+d.lasted[i], "", 1)
			continue
		}
		d.texts[i] = strings.Replace(text, d.lasted[i], gvl.Bounded{NS: t.StateNS, Bound: gvl.AtLeast}.Prose(), 1)
	}
	d.Findings = append([]report.StatFinding{}, findings...)
}

// NewDumpRactor returns the thread that holds a ractor's GVL and the threads that wait for this GVL. verdict returns
// the state of a thread by the thread's index in s.
func NewDumpRactor(r *sampler.Ractor, s *sampler.Sample, verdict func(int) gvl.ThreadState) report.DumpRactor {
	g := report.DumpGVL{Waiting: append([]sampler.ThreadID{}, r.Queue...), WaitingCount: int(r.Waiting), Torn: r.Torn}
	listed := false
	for i := range s.Threads {
		t, v := &s.Threads[i], verdict(i)
		if t.Ractor != r.ID {
			continue
		}
		listed = listed || t.ID == r.OwnerEnd
		switch {
		// If the GVL changes its holder while ddtop reads the threads, two threads can look like the holder. In this
		// case, use the holder at the end of the read (OwnerEnd).
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
		// this thread is missing in the list of threads, because the list was read before the holder
		g.Owner = &r.OwnerEnd
	}
	g.Owner, g.Handover = copied(g.Owner), copied(g.Handover)
	g.WaitingCount = max(g.WaitingCount, len(g.Waiting))
	return report.DumpRactor{ID: r.ID, GVL: g}
}

func dumpThread(t *sampler.Thread, v gvl.ThreadState, dict *sampler.Dictionary) report.DumpThread {
	out := report.DumpThread{
		ID: t.ID, Ractor: t.Ractor, Main: t.Bits&sampler.BitMain != 0,
		Status: t.Status.String(), State: v.State.String(), Detail: v.Detail.JSON(v.State, dict), StateNS: v.Lasted().NS, StateBound: v.Lasted().Bound,
		Frames: dumpFrames(dict, t.Stack), Fibers: make([]report.DumpFiber, 0, len(t.Resumers)),
		Suspended: []report.DumpSuspendedFibers{},
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
			out.Name = &info.Name
		}
	}
	if t.Kernel.CPUAtNS != 0 {
		out.CPUNS = copied(&t.Kernel.CPUNS)
	}
	if t.Quality&sampler.StackUncertainTop != 0 && len(out.Frames) > 0 {
		out.Frames[0].Uncertain = true
	}
	if native := dict.NativeStack(t); !native.Empty() {
		out.Native = report.NewDumpNative(native)
	}
	for _, f := range t.Resumers {
		out.Fibers = append(out.Fibers, report.DumpFiber{Frames: dumpFrames(dict, f)})
	}
	return out
}

func dumpFrames(dict *sampler.Dictionary, stack sampler.StackID) []report.DumpFrame {
	ids := dict.Frames(stack, nil)
	out := make([]report.DumpFrame, 0, len(ids))
	for _, id := range ids {
		f := dict.Frame(id)
		out = append(out, report.DumpFrame{
			Own: f.Own(), Library: f.Library(), Label: f.Label, Name: f.Name, Path: report.TextOrNil(f.Path), AbsolutePath: report.TextOrNil(f.AbsolutePath),
			Line: f.Line, C: f.C, Uncertain: f.Uncertain, Origin: f.Origin.String(), Gem: report.TextOrNil(f.Gem),
		})
	}
	return out
}

// FoldLibraries sets whether WriteText shows a run of frames from libraries as one line (flamegraph.FoldStack). JSON
// always has all frames.
func (d *Dump) FoldLibraries(on bool) { d.ownOnly = on }

// OnlyEndpoints keeps only the threads that work for a request or job whose endpoint is accepted by the function match.
// The endpoint is a route or a class of jobs. A thread also stays if the endpoint of one of its suspended fibers is
// accepted. Other suspended fibers are removed. If match is nil, nothing is removed. The dump still names the holders
// of the GVL and of locks. Call OnlyEndpoints after SetFibers, which adds the fibers.
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

// isFor reports whether q is a request or job, and the function match accepts its endpoint (a route or a class of
// jobs).
func isFor(q *report.StatServing, match func(name string) bool) bool {
	return q != nil && q.Endpoint != nil && match(*q.Endpoint)
}

// onlyEndpointsOf returns the suspended fibers that work for a request or job whose endpoint the function match
// accepts.
func onlyEndpointsOf(list []report.DumpSuspendedFibers, match func(name string) bool) []report.DumpSuspendedFibers {
	var out []report.DumpSuspendedFibers
	for _, x := range list {
		x.Serving = slices.DeleteFunc(slices.Clone(x.Serving), func(q report.StatServing) bool { return !isFor(&q, match) })
		if x.Count = len(x.Serving); x.Count > 0 {
			out = append(out, x)
		}
	}
	return out
}

// WriteJSON writes the dump as one indented JSON object and a newline.
func (d *Dump) WriteJSON(w io.Writer) error { return WriteJSON(w, d.shown()) }

// shown returns the dump without the threads that are left out.
func (d *Dump) shown() *Dump {
	if d.leftOut == nil {
		return d
	}
	c := *d
	c.Threads = []report.DumpThread{}
	for i := range d.Threads {
		if !d.leftOut[i] {
			c.Threads = append(c.Threads, d.Threads[i])
		}
	}
	return &c
}

func copied[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
