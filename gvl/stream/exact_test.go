package stream

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// exactLog keeps all results of a Stream.
type exactLog struct {
	gvl.Ignore
	intervals []gvl.Interval
	waits     []gvl.Wait
	lane      []gvl.LockInterval
}

func (l *exactLog) Interval(i *gvl.Interval) { l.intervals = append(l.intervals, *i) }
func (l *exactLog) Waited(w *gvl.Wait)       { l.waits = append(l.waits, *w) }

// Lock merges adjacent intervals that are alike.
func (l *exactLog) Lock(i *gvl.LockInterval) {
	x := gvl.LockInterval{Ractor: i.Ractor, Thread: i.Thread, Waiters: i.Waiters, FromNS: i.FromNS, ToNS: i.ToNS}
	if n := len(l.lane); n > 0 {
		last := l.lane[n-1]
		if last.FromNS, last.ToNS = x.FromNS, x.ToNS; last == x && l.lane[n-1].ToNS == x.FromNS {
			l.lane[n-1].ToNS = x.ToNS
			return
		}
	}
	l.lane = append(l.lane, x)
}

// TestExactIsTrue: if samples have all changes, a Stream's results equal the simulated truth, to the ns. The test
// compares three things: each thread's time by whether it holds or wants the GVL, each wait with its holders, and the
// intervals of the GVL.
//
// Samples are imperfect, as in reality. They are read a little earlier, see only a part of the truth, or see changes
// that are not recorded yet. Threads begin and end, and samples see some threads before there is a record of them.
func TestExactIsTrue(t *testing.T) {
	seeds := uint64(800)
	if rubytest.Short(t) {
		seeds = 60
	}
	for seed := range seeds {
		dict := sampler.NewDictionary()
		w := newExactWorld(seed, 2+int(seed%7), dict)
		w.churn = []float64{0, .01, .1}[seed%3]
		w.meanNS = []float64{5_000, 50_000, 500_000, 20e6}[seed%4]
		w.stuck = []float64{0, 0, 0, .0001, .01}[seed%5] * w.meanNS / 5_000
		w.hidden = []float64{0, 0, .3}[seed/5%3]
		p := gvltest.ProcOf(sampler.EraSched)
		c, s, l, begin := gvl.NewClassifier(p, dict), New(p), &exactLog{}, int64(0)
		s.Attach(l)
		for n := range 30 {
			x := w.sample(10*gvltest.MS, []int64{0, 50_000, 2 * gvltest.MS}[seed/3%3])
			if n == 0 {
				// The Stream gets its first sample when the simulated world has already run for some time. Only the
				// time from this sample on is compared.
				begin, w.last = x.TimeNS, nil
				w.ns, w.waits, w.lane = make(map[sampler.ThreadID]*[5]int64), nil, w.lane[len(w.lane)-1:]
				w.lane[0].FromNS = x.TimeNS
				for _, a := range w.live {
					w.ns[a.id] = new([5]int64)
				}
				x.Changes.Fresh = true
			}
			s.Feed(x, c.Classify(x))
		}
		w.lane[len(w.lane)-1].ToNS = w.asked
		got := make(map[sampler.ThreadID]*[5]int64)
		for id := range w.ns {
			got[id] = new([5]int64)
		}
		for _, a := range w.live {
			s.Pending(a.id, func(i *gvl.Interval) { l.intervals = append(l.intervals, *i) })
		}
		s.SettleLocks()
		for _, i := range l.intervals {
			g := sampler.GVLReleased
			switch {
			case i.State.Held():
				g = sampler.GVLHeld
			case i.State == gvl.Waiting && i.Detail.Wait == gvl.WaitQueue:
				g = sampler.GVLQueued
			case i.State == gvl.Waiting:
				g = sampler.GVLChosen
			}
			if from := max(i.FromNS, w.known[i.Thread]); from < i.ToNS {
				got[i.Thread][g] += i.ToNS - from
			}
		}
		for id, ns := range w.ns {
			if *got[id] != *ns {
				t.Fatalf("seed %d thread %d: %v, in truth %v", seed, id, *got[id], *ns)
			}
		}
		for i := range w.waits {
			for _, id := range []*sampler.ThreadID{&w.waits[i].FirstHolder, &w.waits[i].LastHolder} {
				if w.ns[*id] == nil {
					*id = 0
				}
			}
		}
		waits := slices.DeleteFunc(l.waits, func(x gvl.Wait) bool { return x.FromNS < w.known[x.Thread] })
		compareWaits(t, seed, begin, waits, w.waits)
		lane := w.lane[:0:0]
		for _, i := range w.lane {
			if i.Thread != 0 && w.ns[i.Thread] == nil {
				i.Thread = 0
			}
			if i.ToNS > i.FromNS {
				lane = append(lane, i)
			}
		}
		truth := &exactLog{}
		for i := range lane {
			truth.Lock(&lane[i])
		}
		if w.hidden == 0 && !slices.Equal(l.lane, truth.lane) {
			t.Fatalf("seed %d: the lock's intervals\n%+v, in truth\n%+v", seed, l.lane, truth.lane)
		}
		var held, inTruth int64
		for i := range l.lane {
			if l.lane[i].Thread != 0 {
				held += l.lane[i].NS()
			}
		}
		for _, ns := range w.ns {
			inTruth += ns[sampler.GVLHeld]
		}
		if w.hidden == 0 && held != inTruth {
			t.Fatalf("seed %d: held %d by the lock's intervals, in truth %d", seed, held, inTruth)
		}
	}
}

// compareWaits compares the Stream's waits (got) with the true waits (want). A wait that began before beginNS is not
// exact, because the Stream did not see its beginning.
func compareWaits(t *testing.T, seed uint64, beginNS int64, got, want []gvl.Wait) {
	t.Helper()
	order := func(a, b gvl.Wait) int {
		return cmp.Or(cmp.Compare(a.Thread, b.Thread), cmp.Compare(a.FromNS, b.FromNS), cmp.Compare(a.ToNS, b.ToNS))
	}
	got, want = slices.Clone(got), slices.Clone(want)
	slices.SortFunc(got, order)
	slices.SortFunc(want, order)
	if len(got) != len(want) {
		t.Fatalf("seed %d: %d waits, in truth %d", seed, len(got), len(want))
	}
	for i, g := range got {
		if g.Slot >= 0 {
			g.Slot = 0
		}
		g.After, g.Before = 0, gvl.ThreadState{}
		x := want[i]
		if x.FromNS <= beginNS {
			x = gvl.Wait{Thread: x.Thread, FromNS: beginNS, ToNS: x.ToNS}
			if g.LeastNS > g.NS() || g.MostNS < g.NS() {
				t.Fatalf("seed %d: wait\n%+v, whose bounds are not around it", seed, g)
			}
			g.LeastNS, g.MostNS, g.Cut, g.Uncounted = 0, 0, false, false
		} else {
			x.LeastNS, x.MostNS = x.NS(), x.NS()
		}
		if g != x {
			t.Fatalf("seed %d: wait\n%+v, in truth\n%+v", seed, g, x)
		}
	}
}

// BenchmarkStreamExact measures how long a Stream needs for a change of the GVL. Ten threads hand the GVL to each
// other, perSecond times per second.
func BenchmarkStreamExact(b *testing.B) {
	for _, perSecond := range []int{5_000, 50_000} {
		b.Run(fmt.Sprint(perSecond), func(b *testing.B) {
			dict := sampler.NewDictionary()
			w := newExactWorld(1, 10, dict)
			w.meanNS = 1e9 / float64(perSecond)
			p := gvltest.ProcOf(sampler.EraSched)
			c, stream := gvl.NewClassifier(p, dict), New(p)
			var samples []*sampler.Sample
			changes := 0
			for range 200 {
				x := w.sample(10*gvltest.MS, 0)
				changes += len(x.Changes.List)
				samples = append(samples, x)
			}
			span := w.asked - gvltest.Base
			b.ReportAllocs()
			for b.Loop() {
				for _, x := range samples {
					stream.Feed(x, c.Classify(x))
					x.TimeNS += span
					x.Changes.FromNS += span
					x.Changes.ToNS += span
					for k := range x.Changes.List {
						x.Changes.List[k].AtNS += span
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(changes), "ns/change")
		})
	}
}

// TestExactAllocatesNothing: after some time a Stream has all the memory that it needs, and allocates nothing for
// further changes.
func TestExactAllocatesNothing(t *testing.T) {
	dict := sampler.NewDictionary()
	w := newExactWorld(3, 10, dict)
	p := gvltest.ProcOf(sampler.EraSched)
	c, s := gvl.NewClassifier(p, dict), New(p)
	for range 300 {
		x := w.sample(10*gvltest.MS, 0)
		s.Feed(x, c.Classify(x))
	}
	var samples []*sampler.Sample
	for range 101 {
		samples = append(samples, w.sample(10*gvltest.MS, 0))
	}
	i := 0
	if n := testing.AllocsPerRun(100, func() {
		s.Feed(samples[i], c.Classify(samples[i]))
		i++
	}); n != 0 {
		t.Errorf("%v allocations a sample", n)
	}
}

// TestExactGivesMemoryBack: if there are very many changes between two readings of stacks, a Stream allocates memory
// for them. When there are few changes again, it frees this memory.
func TestExactGivesMemoryBack(t *testing.T) {
	dict := sampler.NewDictionary()
	w := newExactWorld(3, 4, dict)
	w.meanNS = 1000
	p := gvltest.ProcOf(sampler.EraSched)
	c, s := gvl.NewClassifier(p, dict), New(p)
	most := func() (n int) {
		for _, rec := range s.table.ByID {
			n = max(n, cap(rec.V.segments))
		}
		return n
	}
	feed := func(samples int) {
		for range samples {
			x := w.sample(10*gvltest.MS, 0)
			s.Feed(x, c.Classify(x))
		}
	}
	feed(10)
	if n := most(); n < 4*keptSegments {
		t.Fatalf("room for %d: too few changes to say anything", n)
	}
	w.meanNS = 1e6
	feed(3 * shrinkReadings)
	if n := most(); n > keptSegments {
		t.Errorf("room for %d changes is kept", n)
	}
	if s.kept < 0 || s.kept > 4*maxSegments {
		t.Errorf("%d changes are counted", s.kept)
	}
}

// TestExactWithoutSamples: if all changes are known, threads have known states between two samples, however far apart
// the samples are.
func TestExactWithoutSamples(t *testing.T) {
	dict := sampler.NewDictionary()
	w := newExactWorld(1, 3, dict)
	p := gvltest.ProcOf(sampler.EraSched)
	c, s, l := gvl.NewClassifier(p, dict), New(p), &exactLog{}
	s.Attach(l)
	for n := range 4 {
		every := int64(10 * gvltest.MS)
		if n == 2 {
			every = 10_000 * gvltest.MS
			w.meanNS = 1e9
		}
		x := w.sample(every, 0)
		x.Changes.Fresh = n == 0
		s.Feed(x, c.Classify(x))
	}
	s.Finish()
	for i := range l.intervals {
		if x := &l.intervals[i]; x.Detail.Reason == gvl.ReasonNotSampled {
			t.Errorf("%v of thread %d is not known", x.ToNS-x.FromNS, x.Thread)
		}
	}
	if s.NotSampledNS() != 0 {
		t.Errorf("%d ns count as not sampled", s.NotSampledNS())
	}
}
