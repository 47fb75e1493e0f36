package account

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// maxGoneThreads is the number of ended threads that an Account lists separately. Further threads that end are added to
// their ractor's sum and counted in Stat.ThreadsOmitted.
const maxGoneThreads = 10_000

// threadTotals adds up the time of one thread or of several. It includes only time whose state is final: no late answer
// of the kernel can change it.
type threadTotals struct {
	id     sampler.ThreadID
	ractor sampler.RactorID
	tid    int32
	main   bool
	gone   bool

	// Each sample reads the fields from here on, so they are stored next to each other.
	waitedAtRead bool
	inRead       bool      // true if stateRead is valid
	stateRead    gvl.State // the state when the kernel's counters were last read

	cpuAtNS, cpuNS, delayNS          int64 // the kernel's counters at their last reading
	cpuSumNS, delaySumNS, waitDelayN int64
	// cpuKnown is set if the counters were read at least twice, so that their growth is known.
	cpuKnown bool

	ns     [gvl.NumStates]int64
	waitNS [gvl.NumWaitKinds]int64
	// afterNS is the waiting time, divided by the state before the wait.
	afterNS [gvl.NumStates]int64
	hist    gvl.Lengths

	// noCPUNS is the time without a CPU, by state. Two readings of the counters show how long the thread was without a
	// CPU between the readings. This time is included only if the thread was in the same state at both readings.
	noCPUNS [gvl.NumStates]int64
}

// Account adds up times and counts of a whole run, for `ddtop stat`. It is a gvl.Consumer. It is not safe for
// concurrent use.
type Account struct {
	gvl.Ignore
	proc    sampler.Process
	dict    *sampler.Dictionary
	stream  *stream.Stream
	threads []threadTotals // by Interval.Slot; id is 0 if the slot has no thread
	gone    []threadTotals
	omitted int
	longest waitList
	// short adds up all threads that no sample listed, because they lived for too short a time.
	short   threadTotals
	maxID   sampler.ThreadID
	ractors []threadTotals // sums of omitted threads, by ractor
	// unheldNS is, for each ractor, how long threads waited for a GVL that no thread held.
	unheldNS map[sampler.RactorID]int64

	startNS, lastNS     int64
	samples, stackTicks uint64
	gcNS                int64
	firstGC, lastGC     sampler.GC
	// firstClasses and lastClasses are the first and the last estimate of allocations by class. They are nil if there
	// is no estimate.
	firstClasses, lastClasses *sampler.AllocClasses
	gc                        gcAccount
	firstHeap, lastHeap       sampler.GCDetail
	firstProc, lastProc       sampler.Proc
	// stoppedNS is how long a signal or a debugger had stopped the process. frozenNS is how long it was frozen by its
	// cgroup.
	stoppedNS, frozenNS int64
	lastSelf            sampler.Self
	lowered             bool // the rates were lowered at any time
	// sampledNS and exactNS divide the measured time. sampledNS is the time, in ns, in which only samples show which
	// thread holds the GVL, because changes of the GVL may be missing. sampledSteps is the number of intervals between
	// samples in this time. exactNS is the time in which every change is known, in ns.
	sampledNS, sampledSteps int64
	quality                 sampler.Quality
	exactNS                 int64
	firstReads, lastRead    sampler.Reads
	self, switches          Meter
	pauses                  pauseTotals
	// firstQueues and lastQueues are the first and the last reading of the queues in which requests wait before the
	// process accepts them (sampler.Queues). They are nil if no sample had such a reading.
	firstQueues, lastQueues *sampler.Queues
	// mostBacklog is the largest number of waiting connections (backlog) that a sample showed. It is UnknownCount if no
	// sample showed a number.
	mostBacklog int64
}

// New returns an Account of a stream of the target p. dict may be nil.
func New(s *stream.Stream, p sampler.Process, dict *sampler.Dictionary) *Account {
	a := &Account{proc: p, dict: dict, stream: s, gc: newGCAccount(), mostBacklog: sampler.UnknownCount,
		unheldNS: make(map[sampler.RactorID]int64)}
	s.Attach(a)
	return a
}

func (a *Account) Interval(i *gvl.Interval) { a.threads[i.Slot].add(i) }

func (a *Account) Waited(w *gvl.Wait) {
	t := &a.short
	if w.Slot >= 0 {
		t = &a.threads[w.Slot]
	}
	t.hist.Add(w)
	a.longest.add(w)
}

// Lock adds the time in which no thread held a GVL that threads waited for. It also adds the holds and waits of
// threads that no sample listed, because such threads have no Intervals.
func (a *Account) Lock(i *gvl.LockInterval) {
	if i.Thread == 0 && !i.Unlisted.Holds && i.Waiters > 0 {
		a.unheldNS[i.Ractor] += i.NS()
	}
	a.short.ractor = i.Ractor
	if i.Unlisted.Holds {
		a.short.ns[gvl.Running] += i.NS()
	}
	ns := i.Unlisted.Waiters * i.NS()
	a.short.ns[gvl.Waiting] += ns
	a.short.waitNS[gvl.WaitQueue] += ns
	a.short.afterNS[gvl.Unknown] += ns
}

func (a *Account) Collecting(i *gvl.GCInterval) {
	a.gcNS += i.NS()
	a.gc.pay(i.Stack, i.Mode, i.NS())
}

func (a *Account) Ended(slot int, _ int64) {
	a.retire(&a.threads[slot])
	a.threads[slot] = threadTotals{}
}

// Tick adds the counts of a sample. In the steady state it allocates no memory.
func (a *Account) Tick(k *gvl.Tick) {
	a.tickProcess(k)
	a.gc.tick(k)
	for _, i := range k.Begun {
		for k.Slots[i] >= len(a.threads) {
			a.threads = append(a.threads, threadTotals{})
		}
		a.threads[k.Slots[i]] = a.newTotals(&k.States[i])
	}
	for i := range k.States {
		slot, ts := k.Slots[i], &k.States[i]
		if slot < 0 {
			continue
		}
		t := &a.threads[slot]
		if k.Gap {
			// the kernel's counts in a gap between samples belong to no sampled state
			t.waitedAtRead, t.inRead = false, false
		}
		t.counters(&k.Threads[i], ts.State)
	}
}

func (t *threadTotals) add(i *gvl.Interval) {
	d := i.NS()
	t.ns[i.State] += d
	if i.State == gvl.Waiting {
		t.waitNS[i.Detail.Wait] += d
		t.afterNS[i.Detail.After] += d
	}
}

// newTotals returns the totals for a thread that was not in the last sample. Usually the thread is new. But an
// incomplete list can lack a thread for a moment. So if the thread was listed before, newTotals returns its old totals.
// IDs grow, so a new thread has a higher ID than all threads before it.
func (a *Account) newTotals(ts *gvl.ThreadState) threadTotals {
	if ts.Thread > a.maxID {
		a.maxID = ts.Thread
		return threadTotals{id: ts.Thread, ractor: ts.Ractor}
	}
	for i := len(a.gone) - 1; i >= 0; i-- {
		if a.gone[i].id == ts.Thread {
			t := a.gone[i]
			a.gone = slices.Delete(a.gone, i, i+1)
			t.gone, t.ractor = false, ts.Ractor
			return t
		}
	}
	return threadTotals{id: ts.Thread, ractor: ts.Ractor}
}

func (a *Account) tickQueues(q *sampler.Queues) {
	a.lastQueues = q
	if a.firstQueues == nil {
		a.firstQueues = q
	}
	if n, known := q.Backlog(); known {
		a.mostBacklog = max(a.mostBacklog, n)
	}
}

func (a *Account) tickProcess(k *gvl.Tick) {
	s := k.Sample
	if k.First {
		a.startNS = k.ToNS
		a.firstGC, a.firstReads, a.firstClasses = s.GC, s.Reads, s.Classes
	}
	if !a.firstGC.Valid {
		a.firstGC = s.GC
	}
	if s.GC.Valid {
		a.lastGC = s.GC
	}
	if s.Classes != nil {
		a.lastClasses = s.Classes
	}
	if s.GCDetail.AtNS != a.lastHeap.AtNS && s.GCDetail.AtNS != 0 {
		a.lastHeap = s.GCDetail
		if a.firstHeap.AtNS == 0 {
			a.firstHeap = s.GCDetail
		}
	}
	if s.Queues != nil && s.Queues != a.lastQueues {
		a.tickQueues(s.Queues)
	}
	if a.firstProc.AtNS == 0 {
		a.firstProc = s.Proc
	}
	if !k.First && !k.Gap {
		a.held(&a.lastProc, k.MidNS-k.FromNS)
		a.held(&s.Proc, k.ToNS-k.MidNS)
	}
	a.lastProc = s.Proc
	a.self.Feed(s.Self.CPUNS, s.TimeNS)
	a.switches.Feed(s.Proc.Switches, s.TimeNS)
	a.lastSelf, a.lastRead = s.Self, s.Reads
	a.lowered = a.lowered || s.Self.Lowered
	a.pauses.feed(s)
	if c := &k.Changes; c.Known() && !k.First {
		a.exactNS += c.ToNS - c.FromNS
	}
	if !k.First && !k.Exact {
		a.sampledNS += k.ToNS - k.FromNS
		a.sampledSteps++
	}
	q := k.Quality()
	a.quality.Add(&q)
	a.samples++
	if s.Depth == sampler.StackTick {
		a.stackTicks++
	}
	a.lastNS = k.ToNS
}

// held adds ns to stoppedNS if the sample p shows the process stopped, and to frozenNS if the sample shows it frozen.
func (a *Account) held(p *sampler.Proc, ns int64) {
	if p.Stopped {
		a.stoppedNS += ns
	}
	if p.Frozen {
		a.frozenNS += ns
	}
}

// counters adds what the kernel counted for the thread since the last reading of its counters. If the Ruby thread now
// runs on another native thread, it only stores the counters, so that the next call counts from them.
func (t *threadTotals) counters(th *sampler.Thread, state gvl.State) {
	k := &th.Kernel
	if th.Bits&sampler.BitMain != 0 {
		t.main = true
	}
	if th.TID != 0 && th.TID != t.tid {
		t.tid, t.cpuAtNS = th.TID, 0
	}
	waiting := state == gvl.Waiting
	if k.CPUAtNS == t.cpuAtNS || k.CPUAtNS == 0 || th.TID == 0 {
		t.waitedAtRead = t.waitedAtRead && waiting
		t.inRead = t.inRead && state == t.stateRead
		return
	}
	if t.cpuAtNS != 0 && k.CPUNS >= t.cpuNS && k.RunDelayNS >= t.delayNS {
		t.cpuSumNS, t.cpuKnown = t.cpuSumNS+k.CPUNS-t.cpuNS, true
		delay := k.RunDelayNS - t.delayNS
		t.delaySumNS += delay
		if t.waitedAtRead {
			t.waitDelayN += delay
		}
		if t.inRead && state == t.stateRead {
			t.noCPUNS[state] += delay
		}
	}
	t.cpuAtNS, t.cpuNS, t.delayNS = k.CPUAtNS, k.CPUNS, k.RunDelayNS
	t.waitedAtRead = waiting
	t.stateRead, t.inRead = state, true
}

// retire adds the totals of a thread that has ended to the list of ended threads. If the list is full, retire adds the
// totals to a sum.
func (a *Account) retire(t *threadTotals) {
	t.gone = true
	if len(a.gone) < maxGoneThreads {
		a.gone = append(a.gone, *t)
		return
	}
	a.omitted++
	i := slices.IndexFunc(a.ractors, func(r threadTotals) bool { return r.ractor == t.ractor })
	if i < 0 {
		i = len(a.ractors)
		a.ractors = append(a.ractors, threadTotals{ractor: t.ractor})
	}
	a.ractors[i].merge(t)
}

// merge adds the times and waits of the thread t to the sum r.
func (r *threadTotals) merge(t *threadTotals) {
	for i, v := range t.ns {
		r.ns[i] += v
	}
	for i, v := range t.waitNS {
		r.waitNS[i] += v
	}
	for i, v := range t.afterNS {
		r.afterNS[i] += v
	}
	r.waitDelayN += t.waitDelayN
	r.hist.Merge(&t.hist)
}
