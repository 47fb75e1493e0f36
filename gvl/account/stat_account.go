package account

import (
	"cmp"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// Totals are the sums so far for one thread that the last sample lists.
type Totals struct {
	Thread sampler.ThreadID
	Ractor sampler.RactorID
	// NS is the thread's time by state. The sum over all states is the time in which samples listed the thread.
	NS         [gvl.NumStates]int64
	CPUNS      int64
	RunDelayNS int64
	Waits      report.StatWaits
	NoCPU      report.StatNoCPU
}

// Thread returns the totals so far of a thread. ok is false if the last sample does not list the thread.
func (a *Account) Thread(id sampler.ThreadID) (t Totals, ok bool) {
	slot, ok := a.stream.SlotOf(id)
	if !ok {
		return Totals{}, false
	}
	v, open := a.upToNow(&a.threads[slot])
	return Totals{
		Thread: id, Ractor: v.ractor, NS: v.ns, CPUNS: v.cpuSumNS, RunDelayNS: v.delaySumNS,
		Waits: a.statWaits(&v.waitNS, &v.afterNS, &v.hist, open, v.waitDelayN), NoCPU: v.noCPU(),
	}, true
}

// upToNow returns a copy of a listed thread's totals, with two additions: the time whose state is not final yet, and
// the wait in progress. open is the number of waits in progress: 0 or 1.
func (a *Account) upToNow(t *threadTotals) (v threadTotals, open int64) {
	v = *t
	a.stream.Pending(v.id, v.add)
	if w, ok := a.stream.WaitOf(v.id); ok {
		v.hist, open = v.hist.Clone(), 1
		v.hist.Add(&w)
	}
	return v, open
}

func (a *Account) statWaits(ns *[gvl.NumWaitKinds]int64, after *[gvl.NumStates]int64, h *gvl.Lengths, open, delay int64) report.StatWaits {
	w := report.StatWaits{
		QueueNS: ns[gvl.WaitQueue], HandoverNS: ns[gvl.WaitHandover], YieldNS: ns[gvl.WaitYield], CPUSlotNS: ns[gvl.WaitCPUSlot],
		InProgress: open, AfterNS: report.StatesOf(*after),
	}
	// The kernel's counters are not read exactly at the beginnings and ends of waits. So delay, the time without a CPU,
	// can be longer than the waits. It is therefore limited to the length of the waits.
	w.RunDelayNS = min(delay, w.QueueNS+w.HandoverNS+w.YieldNS+w.CPUSlotNS)
	if a.sampledSteps > 0 {
		w.ResolutionNS = a.sampledNS / a.sampledSteps
	}
	w.Count = h.Count()
	told := h.Told(.5, .9, .99, 1)
	w.P50NS, w.P90NS, w.P99NS, w.MaxNS = told[0].NS, told[1].NS, told[2].NS, told[3].NS
	w.Bounds = report.StatBounds{P50: told[0].Bound, P90: told[1].Bound, P99: told[2].Bound, Max: told[3].Bound}
	for _, f := range told {
		w.AtLeast, w.AtMost = w.AtLeast || f.Bound == gvl.AtLeast, w.AtMost || f.Bound == gvl.AtMost
	}
	return w
}

// Stat returns the totals so far, even if they are computed from few samples. Measure.Stat differs: it leaves out
// figures for which there are too few samples.
func (a *Account) Stat() report.Stat {
	a.stream.SettleLocks()
	window := a.lastNS - a.startNS
	s := report.Stat{
		PID: a.proc.PID, StartNS: a.startNS, EndNS: a.lastNS, DurationNS: window, Samples: a.samples,
		Torn: a.lastRead.Torn - a.firstReads.Torn, Partial: a.lastRead.Partial - a.firstReads.Partial,
		Failed: a.lastRead.Failed - a.firstReads.Failed, Retried: a.lastRead.Retried - a.firstReads.Retried,
		Late: a.lastRead.Late - a.firstReads.Late, Lost: a.lastRead.Lost - a.firstReads.Lost, NotSampled: a.stream.NotSampledNS(), ExactNS: a.exactNS,
		GVL: []report.StatGVL{}, Threads: []report.StatThread{}, Findings: []report.StatFinding{}, LongestWaits: []report.StatWait{}, NativeThreads: []report.StatNative{}, NativeWaits: []report.StatNativeWait{}, Blame: report.StatBlame{Frames: []report.StatPlace{}, Threads: []report.StatCharge{}}, ThreadsGone: len(a.gone) + a.omitted, ThreadsOmitted: a.omitted,
	}
	if a.dict != nil {
		s.NamesLeftOut = a.dict.LeftOut()
	}
	s.Pauses = a.pauses.stat(&a.firstReads, &a.lastRead)
	s.Rate.Stack.Asked, s.Rate.Lock.Asked = a.proc.StackRate, a.proc.LockRate
	if window > 0 && a.samples > 1 {
		// n samples have n-1 intervals between them.
		s.Rate.Lock.Achieved = float64(a.samples-1) / (float64(window) / 1e9)
		s.Rate.Stack.Achieved = s.Rate.Lock.Achieved * float64(a.stackTicks) / float64(a.samples)
	}
	s.Quality = report.QualityOf(&a.quality)
	a.statThreads(&s)
	a.statProcess(&s)
	return s
}

func (a *Account) statThreads(s *report.Stat) {
	ractors := make(map[sampler.RactorID]*threadTotals)
	openOf := make(map[sampler.RactorID]int64)
	add := func(id sampler.RactorID, t *threadTotals) {
		if ractors[id] == nil {
			ractors[id] = new(threadTotals)
		}
		ractors[id].merge(t)
	}
	for i := range a.ractors {
		add(a.ractors[i].ractor, &a.ractors[i])
	}
	if a.short.ns != [gvl.NumStates]int64{} {
		add(stream.MainRactor, &a.short)
	}
	one := func(t *threadTotals) {
		v, open := *t, int64(0)
		if !t.gone {
			v, open = a.upToNow(t)
		}
		add(v.ractor, &v)
		openOf[v.ractor] += open
		s.Threads = append(s.Threads, a.statThread(&v, open))
	}
	for i := range a.gone {
		one(&a.gone[i])
	}
	for i := range a.threads {
		if a.threads[i].id != 0 {
			one(&a.threads[i])
		}
	}
	sorting.By(s.Threads, func(x, y report.StatThread) int { return cmp.Compare(x.ID, y.ID) })
	for id, r := range ractors {
		s.GVL = append(s.GVL, report.StatGVL{
			Ractor:      id,
			HeldShare:   gvl.Ratio(r.ns[gvl.Running]+r.ns[gvl.Stalled]+r.ns[gvl.GC], s.DurationNS),
			WaitingMean: gvl.Ratio(r.ns[gvl.Waiting], s.DurationNS),
			UnheldNS:    a.unheldNS[id],
			Waits:       a.statWaits(&r.waitNS, &r.afterNS, &r.hist, openOf[id], r.waitDelayN),
		})
	}
	sorting.By(s.GVL, func(x, y report.StatGVL) int { return cmp.Compare(x.Ractor, y.Ractor) })
}

// noCPU returns, for each state, the time in which the thread had no CPU. The counters are not read at the moment when
// the state changes, so this time can be longer than the whole time in the state. It is therefore limited to the whole
// time.
func (t *threadTotals) noCPU() report.StatNoCPU {
	part := func(s gvl.State) int64 { return min(t.noCPUNS[s], t.ns[s]) }
	return report.StatNoCPU{Running: part(gvl.Running), GC: part(gvl.GC), Native: part(gvl.Native)}
}

func (a *Account) statThread(v *threadTotals, open int64) report.StatThread {
	t := report.StatThread{
		ID: v.id, Main: v.main, Ractor: v.ractor, NS: report.StatesOf(v.ns),
		Waits: a.statWaits(&v.waitNS, &v.afterNS, &v.hist, open, v.waitDelayN), Gone: v.gone, NoCPU: v.noCPU(),
	}
	if v.cpuKnown {
		t.CPUNS, t.RunDelayNS = &v.cpuSumNS, &v.delaySumNS
	}
	if v.tid != 0 {
		tid := v.tid
		t.TID = &tid
	}
	if a.dict != nil {
		if info, ok := a.dict.Thread(v.id); ok && info.HasName {
			name := info.Name
			t.Name, t.FullName = &name, info.FullName()
		}
	}
	return t
}

func (a *Account) statProcess(s *report.Stat) {
	if a.lastGC.Valid && a.firstGC.Valid {
		s.GC = report.StatGC{
			Valid: true, Count: a.lastGC.Count - a.firstGC.Count, Minor: a.lastGC.MinorCount - a.firstGC.MinorCount,
			Major: a.lastGC.MajorCount - a.firstGC.MajorCount, NS: a.gcNS, RubyNS: a.lastGC.TimeNS - a.firstGC.TimeNS,
			Allocated: a.lastGC.Allocated - a.firstGC.Allocated,
		}
		if a.lastHeap.MovesCounted && a.lastHeap.Moved > a.firstHeap.Moved {
			s.GC.Moved = uint64(a.lastHeap.Moved - a.firstHeap.Moved)
			s.GC.Allocated -= min(s.GC.Allocated, s.GC.Moved)
		}
		if s.DurationNS > 0 {
			s.GC.AllocatedPerSecond = float64(s.GC.Allocated) / (float64(s.DurationNS) / 1e9)
			s.GC.Share = gvl.Ratio(s.GC.NS, s.DurationNS)
		}
		s.GC.Figures = report.FiguresOf(&a.lastHeap)
	}
	s.GC.Triggers, s.GC.Payers = []report.StatGCTrigger{}, []report.StatGCPayer{}
	a.gc.fill(&s.GC, a.dict)
	if a.firstProc.AtNS != 0 {
		s.Process = report.StatProcess{
			SpanNS:      a.lastProc.AtNS - a.firstProc.AtNS,
			CPUNS:       a.lastProc.UserNS + a.lastProc.SystemNS - a.firstProc.UserNS - a.firstProc.SystemNS,
			ThrottledNS: a.lastProc.ThrottledNS - a.firstProc.ThrottledNS, RSSBytes: a.lastProc.RSSBytes,
			MajorFaults: a.lastProc.MajorFaults - a.firstProc.MajorFaults,
			SwapBytes:   a.lastProc.SwapBytes,
			UserNS:      a.lastProc.UserNS - a.firstProc.UserNS, SystemNS: a.lastProc.SystemNS - a.firstProc.SystemNS,
			PSSBytes: a.lastProc.PSSBytes, Stopped: a.lastProc.Stopped, Frozen: a.lastProc.Frozen,
			StoppedNS: a.stoppedNS, FrozenNS: a.frozenNS,
		}
		s.Process.Switches, s.Process.SwitchesSpanNS = a.switches.Since(new(Meter))
	}
	s.Alloc = a.Alloc()
	s.Queues = report.QueuesOf(a.firstQueues, a.lastQueues, a.mostBacklog)
	s.Process.Pressure = pressureOf(&a.firstProc.Pressure, &a.lastProc.Pressure)
	s.Process.Pressure.Unread = s.Process.SpanNS <= 0
	s.Self.MaxRSSBytes = a.lastSelf.MaxRSSBytes
	s.Self.Priority, s.Self.PriorityNote = a.lastSelf.Priority.String(), a.lastSelf.Priority.Words()
	if a.lastSelf.Priority == sampler.PriorityNormal && a.proc.PriorityNote != "" {
		s.Self.PriorityNote = a.proc.PriorityNote
	}
	if a.proc.Overhead > 0 {
		s.Self.Overhead = &a.proc.Overhead
	}
	if a.proc.OverheadMost > 0 {
		s.Self.OverheadMost = &a.proc.OverheadMost
	}
	s.Self.Halved, s.Self.Lowered, s.Self.Extended = a.lastSelf.Halved, a.lowered, a.lastSelf.Extended
	if cpu, span := a.self.Since(new(Meter)); span > 0 {
		s.Self.CPUNS, s.Self.SpanNS = &cpu, span
	}
}

// Alloc returns how much was allocated during the stream, by class of the objects.
func (a *Account) Alloc() report.StatAlloc { return AllocOf(a.firstClasses, a.lastClasses) }

// pressureOf returns the growth of the kernel's pressure figures (PSI) between two readings. The result is empty if the
// readings have different Sources, because one is about the process's cgroup and the other about the whole machine.
func pressureOf(first, last *sampler.Pressure) report.StatPressure {
	if first.Source != last.Source {
		return report.StatPressure{Source: sampler.PressureNone.String()}
	}
	return report.StatPressure{
		Source: last.Source.String(), CPUSomeNS: last.CPUSomeNS - first.CPUSomeNS,
		MemorySomeNS: last.MemorySomeNS - first.MemorySomeNS, MemoryFullNS: last.MemoryFullNS - first.MemoryFullNS,
		IOSomeNS: last.IOSomeNS - first.IOSomeNS, IOFullNS: last.IOFullNS - first.IOFullNS,
	}
}
