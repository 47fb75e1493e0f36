package gvl

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// MaxGoneThreads is how many ended threads an Account keeps apart; those that end later are summed into their ractor
// only and counted in Stat.ThreadsOmitted.
const MaxGoneThreads = 10_000

// threadTotals is one thread's totals; the segment going on (state since segNS) is not in them yet.
type threadTotals struct {
	id     sampler.ThreadID
	ractor sampler.RactorID
	tid    int32
	main   bool
	gone   bool

	state State
	wait  WaitKind
	segNS int64
	// pending: Unknown for want of the kernel's answer, which may still come.
	pending bool

	ns     [NumStates]int64
	waitNS [NumWaitKinds]int64
	// afterNS is the waiting time by the state before the wait, after that state for the wait going on.
	afterNS [NumStates]int64
	after   State
	hist    *histogram
	packed  *packedHistogram // of a thread that has ended, instead of hist
	// waitFromNS is when the wait going on began.
	waitFromNS int64

	cpuAtNS, cpuNS, delayNS          int64 // the last reading
	cpuSumNS, delaySumNS, waitDelayN int64
	waitedAtRead                     bool
	// noCPUNS is what of the delay lies between two readings that both found the thread in that state.
	noCPUNS   [NumStates]int64
	stateRead State // at the last reading
	inRead    bool  // stateRead holds
}

// ractorTotals sums the threads of a ractor that are no longer kept apart.
type ractorTotals struct {
	id      sampler.RactorID
	ns      [NumStates]int64
	waitNS  [NumWaitKinds]int64
	afterNS [NumStates]int64
	delay   int64
	hist    *histogram
}

// Account totals a whole run: what `ddtop stat` prints. It is not safe for concurrent use.
type Account struct {
	proc    sampler.Process
	dict    *sampler.Dictionary
	steps   stepper
	table   table[threadTotals]
	gone    []threadTotals
	omitted int
	maxID   sampler.ThreadID
	ractors []ractorTotals

	startNS, lastNS     int64
	samples, stackTicks uint64
	notSampledNS        int64
	gcNS                int64
	gcDuring            bool
	firstGC, lastGC     sampler.GC
	// firstClasses and lastClasses are the estimates of allocations at the begin and the end; nil: none.
	firstClasses, lastClasses *sampler.AllocClasses
	gc                        gcAccount
	firstHeap, lastHeap       sampler.GCDetail
	firstProc, lastProc       sampler.Proc
	lastSelf                  sampler.Self
	firstReads, lastRead      sampler.Reads
	self, switches            Meter
	pauses                    pauseTotals
}

// NewAccount returns an Account for the target p. Names come from dict, which may be nil.
func NewAccount(p sampler.Process, dict *sampler.Dictionary) *Account {
	return &Account{proc: p, dict: dict, steps: newStepper(p), table: newTable[threadTotals](), gc: newGCAccount()}
}

// Feed adds one sample with its states (parallel to s.Threads). Samples must come in order of time. In the steady
// state nothing is allocated, and a thread that stays in its state costs a comparison.
func (a *Account) Feed(s *sampler.Sample, states []ThreadState) {
	st := a.steps.next(s)
	a.feedProcess(s, st)
	a.gc.feed(s, states, st)
	a.table.begin(len(states))
	for i := range states {
		ts := &states[i]
		r, fresh := a.table.at(i, ts.Thread)
		if r == nil {
			continue
		}
		t := &r.v
		if fresh {
			at := st.midNS
			if st.gap {
				at = st.toNS
			}
			*t = a.newTotals(ts)
			t.begin(ts, at)
		} else if st.gap {
			t.flush(st.fromNS)
			t.endWait(st.fromNS)
			t.ns[Unknown] += st.toNS - st.fromNS
			t.waitedAtRead, t.inRead = false, false // what the kernel counted in the gap is no part of a state that was seen
			t.ractor = ts.Ractor
			t.begin(ts, st.toNS)
		} else if t.state != ts.State || ts.State == Waiting && t.wait != ts.Detail.Wait || ts.State == Unknown && ts.SinceNS > t.segNS {
			t.change(ts, st.midNS, a.steps.reach)
		}
		t.counters(&s.Threads[i], st.first || fresh)
	}
	a.table.end(func(r *record[threadTotals]) {
		at := st.midNS
		if st.gap {
			at = st.fromNS
		}
		r.v.flush(at)
		r.v.endWait(at)
		a.retire(&r.v)
	})
}

// newTotals returns the totals of a thread that was not in the last sample: its old ones when it was listed before, for
// a list read in part can miss a thread for a moment. Ids are given in order, so a new thread has a higher one than any.
func (a *Account) newTotals(ts *ThreadState) threadTotals {
	if ts.Thread > a.maxID {
		a.maxID = ts.Thread
		return threadTotals{id: ts.Thread, ractor: ts.Ractor}
	}
	for i := len(a.gone) - 1; i >= 0; i-- {
		if a.gone[i].id == ts.Thread {
			t := a.gone[i]
			a.gone = slices.Delete(a.gone, i, i+1)
			t.gone, t.ractor = false, ts.Ractor
			t.hist, t.packed = t.packed.unpack(), nil
			return t
		}
	}
	return threadTotals{id: ts.Thread, ractor: ts.Ractor}
}

func (a *Account) feedProcess(s *sampler.Sample, st step) {
	if st.first {
		a.startNS = st.toNS
		a.firstGC, a.firstReads, a.firstClasses = s.GC, s.Reads, s.Classes
	}
	if st.gap {
		a.notSampledNS += st.toNS - st.fromNS
	} else {
		if a.gcDuring {
			a.gcNS += st.midNS - st.fromNS
		}
		if s.GC.Valid && s.GC.During {
			a.gcNS += st.toNS - st.midNS
		}
	}
	a.gcDuring = s.GC.Valid && s.GC.During
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
	if a.firstProc.AtNS == 0 {
		a.firstProc = s.Proc
	}
	a.lastProc = s.Proc
	a.self.Feed(s.Self.CPUNS, s.TimeNS)
	a.switches.Feed(s.Proc.Switches, s.TimeNS)
	a.lastSelf, a.lastRead = s.Self, s.Reads
	a.pauses.feed(s)
	a.samples++
	if s.Depth == sampler.StackTick {
		a.stackTicks++
	}
	a.lastNS = st.toNS
}

// begin starts a segment.
func (t *threadTotals) begin(ts *ThreadState, at int64) {
	t.state, t.wait, t.segNS = ts.State, ts.Detail.Wait, at
	t.pending = ts.Open()
	if ts.State == Waiting {
		t.waitFromNS, t.after = at, ts.Detail.After
	}
}

// flush adds the segment going on, up to at.
func (t *threadTotals) flush(at int64) {
	d := at - t.segNS
	if d <= 0 {
		return
	}
	t.ns[t.state] += d
	if t.state == Waiting {
		t.waitNS[t.wait] += d
		t.afterNS[t.after] += d
	}
	t.segNS = at
}

func (t *threadTotals) endWait(at int64) {
	if t.state != Waiting {
		return
	}
	if t.hist == nil {
		t.hist = new(histogram)
	}
	t.hist.add(at - t.waitFromNS)
}

// change ends the segment at at and starts the next one.
func (t *threadTotals) change(ts *ThreadState, at int64, reach Reach) {
	if t.pending && reach.tells(ts, t.segNS, at) {
		// The kernel's answer holds since the episode began: what was not told yet now is.
		t.state, t.pending = ts.State, false
		return
	}
	t.flush(at)
	if t.state == Waiting && ts.State == Waiting {
		t.wait = ts.Detail.Wait
		return
	}
	t.endWait(at)
	t.begin(ts, at)
}

// counters adds what the kernel counted since the last reading. A new native thread starts a new count.
func (t *threadTotals) counters(th *sampler.Thread, fresh bool) {
	k := &th.Kernel
	if th.Bits&sampler.BitMain != 0 {
		t.main = true
	}
	if th.TID != 0 && th.TID != t.tid {
		t.tid, t.cpuAtNS = th.TID, 0
	}
	waiting := t.state == Waiting
	if k.CPUAtNS == t.cpuAtNS || k.CPUAtNS == 0 || th.TID == 0 {
		t.waitedAtRead = t.waitedAtRead && waiting
		t.inRead = t.inRead && t.state == t.stateRead
		return
	}
	if t.cpuAtNS != 0 && k.CPUNS >= t.cpuNS && k.RunDelayNS >= t.delayNS {
		t.cpuSumNS += k.CPUNS - t.cpuNS
		delay := k.RunDelayNS - t.delayNS
		t.delaySumNS += delay
		if t.waitedAtRead {
			t.waitDelayN += delay
		}
		if t.inRead && t.state == t.stateRead {
			t.noCPUNS[t.state] += delay
		}
	}
	t.cpuAtNS, t.cpuNS, t.delayNS = k.CPUAtNS, k.CPUNS, k.RunDelayNS
	t.waitedAtRead = waiting
	t.stateRead, t.inRead = t.state, true
}

// retire keeps the totals of a thread that has ended.
func (a *Account) retire(t *threadTotals) {
	t.gone = true
	if len(a.gone) < MaxGoneThreads {
		g := *t
		g.hist, g.packed = nil, t.hist.pack()
		a.gone = append(a.gone, g)
		return
	}
	a.omitted++
	r := a.ractor(t.ractor)
	r.add(t)
}

func (a *Account) ractor(id sampler.RactorID) *ractorTotals {
	for i := range a.ractors {
		if a.ractors[i].id == id {
			return &a.ractors[i]
		}
	}
	a.ractors = append(a.ractors, ractorTotals{id: id})
	return &a.ractors[len(a.ractors)-1]
}

func (r *ractorTotals) add(t *threadTotals) {
	for i, v := range t.ns {
		r.ns[i] += v
	}
	for i, v := range t.waitNS {
		r.waitNS[i] += v
	}
	for i, v := range t.afterNS {
		r.afterNS[i] += v
	}
	r.delay += t.waitDelayN
	if t.hist != nil {
		if r.hist == nil {
			r.hist = new(histogram)
		}
		r.hist.merge(t.hist)
	}
}
