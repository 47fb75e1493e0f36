package findings

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/streamtest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// span is a period of time.
type span struct{ fromNS, toNS int64 }

// ledger adds up the results of a Stream, to compare them with the sums of its consumers. It also adds up for how long
// samples list each thread.
type ledger struct {
	t       *testing.T
	ns      map[sampler.ThreadID]*[gvl.NumStates]int64
	until   map[sampler.ThreadID]int64 // the end of a listed thread's last interval
	of      map[int]sampler.ThreadID   // the thread of each slot
	waits   map[sampler.ThreadID]int64
	nWaits  map[sampler.ThreadID]int64
	begun   map[sampler.ThreadID]int64
	listed  map[sampler.ThreadID]int64
	damaged bool
	// lockUntil is, for each ractor, the end of the last LockInterval of its GVL. lockWait is the time for which
	// threads waited for the GVLs, and lockHeld the time for which they held them.
	lockUntil          map[sampler.RactorID]int64
	lockWait, lockHeld int64
	// unlistedWait and unlistedHeld are the parts of lockWait and lockHeld that belong to threads that no sample lists.
	unlistedWait, unlistedHeld int64
	gc                         int64
	// intervals, gcs and steps keep all results of the Stream, because its consumers forget old time. stops has the
	// periods in which the process was stopped.
	intervals []gvl.Interval
	gcs       []gvl.GCInterval
	steps     []span
	stops     []span
	stopped   bool
	// exact is true if samples have all changes of the GVL. Times are then exact, and a thread can begin between two
	// samples.
	exact bool
	// exactSteps counts the intervals between two samples in which the GVL changed. exactWaits counts the waits with
	// two exact ends.
	exactSteps, exactWaits int
}

func newLedger(t *testing.T, s *stream.Stream) *ledger {
	l := &ledger{
		t: t, ns: map[sampler.ThreadID]*[gvl.NumStates]int64{}, until: map[sampler.ThreadID]int64{}, of: map[int]sampler.ThreadID{},
		waits: map[sampler.ThreadID]int64{}, nWaits: map[sampler.ThreadID]int64{}, begun: map[sampler.ThreadID]int64{},
		listed: map[sampler.ThreadID]int64{}, lockUntil: map[sampler.RactorID]int64{},
	}
	s.Attach(l)
	return l
}

func (l *ledger) sums(id sampler.ThreadID) *[gvl.NumStates]int64 {
	if l.ns[id] == nil {
		l.ns[id] = new([gvl.NumStates]int64)
	}
	return l.ns[id]
}

func (l *ledger) Interval(i *gvl.Interval) {
	if i.State >= gvl.NumStates || i.ToNS <= i.FromNS || l.of[i.Slot] != i.Thread {
		l.t.Fatalf("%+v, of the slot of thread %d", i, l.of[i.Slot])
	}
	if l.until[i.Thread] < 0 {
		l.until[i.Thread], l.begun[i.Thread] = i.FromNS, i.FromNS
	}
	if (i.ResolutionNS == 0) == i.Sampled() && !l.exact {
		l.t.Fatalf("%+v does not say how it is known", i)
	}
	if i.FromNS != l.until[i.Thread] {
		l.t.Fatalf("%+v begins at another time than the last one ended, %d", i, l.until[i.Thread])
	}
	l.until[i.Thread] = i.ToNS
	l.sums(i.Thread)[i.State] += i.NS()
	l.intervals = append(l.intervals, *i)
}

func (l *ledger) Waited(w *gvl.Wait) {
	if w.Thread == 0 && w.Slot == -1 && !w.InProgress && w.ToNS >= w.FromNS {
		return
	}
	if w.InProgress || w.ToNS < w.FromNS || l.of[w.Slot] != w.Thread || w.Before.AtNS > w.FromNS {
		l.t.Fatalf("%+v", w)
	}
	if w.Exact {
		l.exactWaits++
	}
	l.waits[w.Thread] += w.NS()
	l.nWaits[w.Thread]++
}

func (l *ledger) Lock(i *gvl.LockInterval) {
	if i.ToNS <= i.FromNS || i.FromNS < l.lockUntil[i.Ractor] {
		l.t.Fatalf("%+v after %d", i, l.lockUntil[i.Ractor])
	}
	l.lockUntil[i.Ractor] = i.ToNS
	l.lockWait += i.WaitNS()
	l.unlistedWait += i.Unlisted.Waiters * i.NS()
	if i.Unlisted.Holds {
		l.unlistedHeld += i.NS()
	}
	if i.Thread != 0 {
		l.lockHeld += i.NS()
	}
}

func (l *ledger) Collecting(i *gvl.GCInterval) {
	l.gc += i.NS()
	l.gcs = append(l.gcs, *i)
}

func (l *ledger) Ended(slot int, atNS int64) {
	id := l.of[slot]
	if l.until[id] < 0 {
		l.until[id], l.begun[id] = atNS, atNS // the thread has existed for no time so far
	}
	if l.until[id] != atNS {
		l.t.Fatalf("thread %d ended at %d, its last interval at %d", id, atNS, l.until[id])
	}
	l.listed[id] += atNS - l.begun[id]
	delete(l.of, slot)
}

func (l *ledger) Tick(k *gvl.Tick) {
	if k.Exact {
		l.exactSteps++
	}
	if !k.Gap {
		l.steps = append(l.steps, span{fromNS: k.FromNS, toNS: k.ToNS})
	}
	if l.stopped {
		l.stops[len(l.stops)-1].toNS = k.ToNS
	}
	stopped := k.Proc.Halted() || slices.ContainsFunc(k.States, func(ts gvl.ThreadState) bool { return ts.Stopped() })
	if stopped && !l.stopped {
		l.stops = append(l.stops, span{fromNS: k.ToNS, toNS: k.ToNS})
	}
	l.stopped = stopped
	for i, slot := range k.Slots {
		id := k.States[i].Thread
		if slot < 0 {
			l.damaged = true
			continue
		}
		switch was, ok := l.of[slot]; {
		case !ok:
			at := k.MidNS
			if k.Gap {
				at = k.ToNS
			}
			if l.exact {
				at = -1
			}
			l.of[slot], l.until[id], l.begun[id] = id, at, at
		case was != id:
			l.t.Fatalf("slot %d is thread %d's and %d's", slot, was, id)
		}
	}
}

// counts returns how much of a period the findings use, in ns. They leave out the time before sinceNS, and time in
// which the process was stopped.
func (l *ledger) counts(fromNS, toNS, sinceNS int64) int64 {
	fromNS = max(fromNS, sinceNS)
	ns := max(toNS-fromNS, 0)
	for _, s := range l.stops {
		ns -= max(min(toNS, s.toNS)-max(fromNS, s.fromNS), 0)
	}
	return ns
}

// agreesWith compares the sums in the window of the findings with the Stream's results for the same time.
func (l *ledger) agreesWith(c *collector, seed uint64) {
	type key struct {
		thread sampler.ThreadID
		state  gvl.State
	}
	sinceNS := (c.cur.at - findingsWindowNS/1e9) * 1e9
	diff, busy := map[key]int64{}, int64(0)
	one := func(i *gvl.Interval) {
		if i.Sampled() {
			diff[key{i.Thread, i.State}] += l.counts(i.FromNS, i.ToNS, sinceNS)
		}
	}
	for k := range l.intervals {
		one(&l.intervals[k])
	}
	for id := range l.until {
		c.stream.Pending(id, one)
	}
	var sampled, gc int64
	for _, s := range l.steps {
		sampled += l.counts(s.fromNS, s.toNS, sinceNS)
	}
	for _, g := range l.gcs {
		gc += l.counts(g.FromNS, g.ToNS, sinceNS)
	}
	add := func(k sumKey, ns int64) {
		if k.dim == dimThread {
			diff[key{sampler.ThreadID(k.id), k.state}] -= ns
			busy += ns
		}
	}
	c.addAll()
	for i := range c.ring {
		b := &c.ring[i]
		if b.at*1e9 < sinceNS {
			continue
		}
		sampled -= b.sampledNS
		gc -= b.gcNS
		for k, ns := range b.sums {
			add(k, ns)
		}
	}
	c.pending(func(b *second, keys []sumKey, ns int64) {
		for _, k := range keys {
			if b.at*1e9 >= sinceNS {
				add(k, ns)
			}
		}
	})
	for k, ns := range diff {
		if ns != 0 {
			l.t.Errorf("seed %d: the findings have %d ns too few of thread %d in state %v", seed, ns, k.thread, k.state)
		}
	}
	if sampled != 0 || gc != 0 || busy == 0 {
		l.t.Errorf("seed %d: the findings have %d ns too few of what was sampled, %d of the collector; %d in all", seed, sampled, gc, busy)
	}
}

// TestIntervalsAddUp: for every stream, a thread's intervals follow each other without a gap from its beginning to its
// end. All consumers add up the same time: their sums, by thread and state, equal the sums of the intervals, to the ns.
func TestIntervalsAddUp(t *testing.T) {
	step := uint64(1)
	if rubytest.Short(t) {
		step = 7 // fewer seeds, but still all kinds of programs
	}
	for seed := uint64(0); seed < 45; seed += step {
		dict := sampler.NewDictionary()
		p := gvltest.ProcOf(gvltest.Eras[seed%uint64(len(gvltest.Eras))])
		class, of := gvl.NewClassifier(p, dict), stream.New(p)
		sums, blamed, requests := account.New(of, p, dict), account.NewBlame(of, dict), account.NewRequests(of, dict, account.MaxBlameWindowNS)
		found := New(of, p, dict, blamed, requests, nil)
		l := newLedger(t, of)
		w := gvltest.NewWorld(seed, 2+int(seed), 1+int(seed%3), dict)
		w.Churn, w.Gaps = []float64{0, .02, .3}[seed%3], []float64{0, .002}[seed%2]
		rng := rand.New(rand.NewPCG(seed, 77))
		l.exact = seed >= 30
		var changes sampler.Changes
		for n := range 2000 {
			s := w.Sample()
			if seed%5 != 0 {
				streamtest.Damage(rng, s)
			}
			if seed%3 == 0 && n == 1000 {
				w.Now += 9700 * gvltest.MS // so that a part of the past leaves the window
			}
			s.Proc.Stopped = seed%2 == 1 && n%400 >= 380
			if l.exact {
				streamtest.Changes(rng, s, &changes)
			}
			of.Feed(s, class.Classify(s))
			if n%500 == 499 {
				l.agreesWith(found.ev, seed)
			}
		}
		// While the stream goes on, the account's sums also include the intervals that are not final yet. Add their
		// time here.
		var pending, open int64
		for id := range l.until {
			of.Pending(id, func(i *gvl.Interval) { pending += i.NS() })
		}
		of.Waiting(func(*gvl.Wait) { open++ })
		before := sums.Stat()
		var listed, settled, inProgress int64
		for _, th := range before.Threads {
			listed += th.NS.Sum()
			inProgress += th.Waits.InProgress
		}
		for _, ns := range l.ns {
			for _, v := range ns {
				settled += v
			}
		}
		if listed != settled+pending || inProgress != open {
			t.Errorf("seed %d: listed %d: %d settled, %d not; %d waits go on, %d in the account", seed, listed, settled, pending, open, inProgress)
		}
		of.Finish()
		st, blame := sums.Stat(), blamed.Top(0, account.ByStack, 0)
		var waited, held int64
		if len(st.Threads) != len(l.ns) && seed%5 == 0 {
			t.Errorf("seed %d: %d threads, %d in the account", seed, len(l.ns), len(st.Threads))
		}
		for i, th := range st.Threads {
			waited += th.NS.Waiting
			held += th.NS.Running + th.NS.Stalled + th.NS.GC
			var sum int64
			for _, v := range l.sums(th.ID) {
				sum += v
			}
			if report.StatesOf(*l.sums(th.ID)) != th.NS || th.NS != before.Threads[i].NS || sum != l.listed[th.ID] {
				t.Errorf("seed %d thread %d: listed %d, intervals\n%+v, account\n%+v, before the end\n%+v", seed, th.ID, l.listed[th.ID],
					report.StatesOf(*l.sums(th.ID)), th.NS, before.Threads[i].NS)
			}
			if l.waits[th.ID] != th.NS.Waiting || l.nWaits[th.ID] != th.Waits.Count {
				t.Errorf("seed %d thread %d: %d waits of %d, in the account %d of %d", seed, th.ID, l.nWaits[th.ID], l.waits[th.ID],
					th.Waits.Count, th.NS.Waiting)
			}
		}
		waited += l.unlistedWait
		if l.lockWait != waited || blame.TotalNS != waited || l.lockHeld != held {
			t.Errorf("seed %d: waited %d, by the GVLs %d, in the blame %d; held %d, by the GVLs %d", seed, waited, l.lockWait, blame.TotalNS,
				held, l.lockHeld)
		}
		if gc := st.GC.PhaseNS; l.gc != st.GC.NS || l.gc != gc.Mark+gc.Sweep+gc.Compact+gc.Other || l.gc == 0 {
			t.Errorf("seed %d: %d in the collector, %d in the account, %+v", seed, l.gc, st.GC.NS, gc)
		}
		longest := sums.Longest(1, 0)
		for _, th := range st.Threads {
			if len(longest) == 1 && th.Waits.MaxNS > longest[0].MostNS {
				t.Errorf("seed %d: thread %d waited longer than the longest wait, %d", seed, th.ID, longest[0].MostNS)
			}
		}
		if (l.exactSteps > 100) != l.exact || (l.exactWaits > 10) != l.exact {
			t.Errorf("seed %d: %d steps are exact, %d waits", seed, l.exactSteps, l.exactWaits)
		}
		if seed%5 != 0 && !l.damaged {
			t.Errorf("seed %d: no thread was listed twice: the stream tests too little", seed)
		}
	}
}

// TestTimelineAddsUp: the sums of the timeline equal the sums of the Stream's intervals. The timeline counts time in
// 50,000ths of a column, so columns of 50 µs or less are exact to the ns. The sums include intervals that are not final
// yet, and the intervals of the GVLs and of the garbage collector.
func TestTimelineAddsUp(t *testing.T) {
	for seed := range uint64(12) {
		dict := sampler.NewDictionary()
		p := gvltest.ProcOf(gvltest.Eras[seed%uint64(len(gvltest.Eras))])
		s := stream.New(p)
		columnNS := int64(timeline.UnitsPerColumn)
		if seed%4 == 2 {
			columnNS = 10_000 // the shortest columns of this test
		}
		c, a, tl := gvl.NewClassifier(p, dict), account.New(s, p, dict), timeline.New(s, columnNS, 1<<17)
		var changes sampler.Changes
		l := newLedger(t, s)
		w := gvltest.NewWorld(seed, 2+int(seed), 1+int(seed%3), dict)
		w.Churn = []float64{0, .02, .3}[seed%3]
		rng := rand.New(rand.NewPCG(seed, 79))
		for n := range 700 {
			x := w.Sample()
			if seed%4 != 0 {
				streamtest.Damage(rng, x)
			}
			if seed%2 == 1 && n == 300 {
				w.Now += 2000 * gvltest.MS
			}
			if l.exact = seed%3 == 2; l.exact {
				streamtest.Changes(rng, x, &changes)
			}
			s.Feed(x, c.Classify(x))
			if n%50 != 49 {
				continue
			}
			from, to := tl.Range()
			st := a.Stat()
			waited, holding := l.unlistedWait, l.unlistedHeld
			var wait, held int64
			for _, th := range st.Threads {
				if got := report.StatesOf(tl.Totals(th.ID, from, to+tl.ColumnNS())); got != th.NS {
					t.Fatalf("seed %d, sample %d, thread %d: timeline\n%+v, account\n%+v", seed, n, th.ID, got, th.NS)
				}
				waited += th.NS.Waiting
				holding += th.NS.Running + th.NS.Stalled + th.NS.GC
			}
			sum := tl.Process(from, to, 1)[0]
			for _, r := range tl.Ractors() {
				o := tl.Owners(r, from, to, 1)[0]
				wait += o.WaitNS
				held += o.HeldNS
			}
			if wait != waited || held != holding || sum.WaitNS != waited || sum.HeldNS != holding || sum.GCNS != l.gc {
				t.Fatalf("seed %d, sample %d: waited %d, held %d, lanes %d, %d, process %+v, in the collector %d", seed, n, waited, holding,
					wait, held, sum, l.gc)
			}
			if sum.SampledNS != st.DurationNS-st.NotSampled {
				t.Fatalf("seed %d, sample %d: sampled %d of %d without %d", seed, n, sum.SampledNS, st.DurationNS, st.NotSampled)
			}
		}
	}
}
