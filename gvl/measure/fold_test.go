package measure

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestProperties: three rules are true for every stream. A GVL has at most one holder at a time. A thread's times by
// state add up to the time for which it was listed. Blame, account and timeline agree on how long threads waited.
func TestProperties(t *testing.T) {
	for _, era := range gvltest.Eras {
		for seed := range uint64(12) {
			dict := sampler.NewDictionary()
			f := NewFold(gvltest.ProcOf(era), dict, Options{})
			w := gvltest.NewWorld(seed, 2+int(seed), 1+int(seed%3), dict)
			w.Churn = []float64{0, .02, .3}[seed%3]
			w.Gaps = []float64{0, .001}[seed%2]
			listed := map[sampler.ThreadID]int64{} // computed without the Fold
			var prev map[sampler.ThreadID]bool
			var prevAt int64
			for range 3000 {
				s := w.Sample()
				states := f.Feed(s)
				oneHolder(t, s, states)
				now := map[sampler.ThreadID]bool{}
				for _, th := range s.Threads {
					now[th.ID] = true
				}
				if prev != nil {
					mid := prevAt + (s.TimeNS-prevAt)/2
					gap := s.TimeNS-prevAt > stream.ReachOf(gvltest.ProcOf(era)).GapNS
					for id := range now {
						switch {
						case prev[id]:
							listed[id] += s.TimeNS - prevAt
						case !gap:
							listed[id] += s.TimeNS - mid
						}
					}
					for id := range prev {
						if !now[id] && !gap {
							listed[id] += mid - prevAt
						}
					}
				}
				prev, prevAt = now, s.TimeNS
			}
			check(t, f, listed, fmt.Sprintf("era %d, seed %d", era, seed))
		}
	}
}

func oneHolder(t *testing.T, s *sampler.Sample, states []gvl.ThreadState) {
	t.Helper()
	held := map[sampler.RactorID]int{}
	for i, ts := range states {
		if ts.Thread != s.Threads[i].ID {
			t.Fatalf("states are not parallel to threads")
		}
		if ts.SinceNS > ts.AtNS {
			t.Fatalf("since %d after %d", ts.SinceNS, ts.AtNS)
		}
		if ts.State.Held() {
			if held[ts.Ractor]++; held[ts.Ractor] > 1 {
				t.Fatalf("ractor %d has two holders", ts.Ractor)
			}
		}
	}
}

func check(t *testing.T, f *Fold, listed map[sampler.ThreadID]int64, name string) {
	t.Helper()
	v := f.View()
	st := v.Account.Stat()
	var waiting, unknownWaits int64
	for _, th := range st.Threads {
		sum := th.NS.Sum()
		if sum != listed[th.ID] {
			t.Errorf("%s: thread %d: times sum to %d, it was listed %d", name, th.ID, sum, listed[th.ID])
		}
		kinds := th.Waits.QueueNS + th.Waits.HandoverNS + th.Waits.YieldNS + th.Waits.CPUSlotNS
		if kinds != th.NS.Waiting {
			t.Errorf("%s: thread %d: waits by kind sum to %d, waiting is %d", name, th.ID, kinds, th.NS.Waiting)
		}
		waiting += th.NS.Waiting
		if w := th.Waits; w.P50NS > w.P90NS || w.P90NS > w.P99NS || w.P99NS > w.MaxNS {
			t.Errorf("%s: quantiles out of order: %+v", name, w)
		}
		if th.Waits.Count == 0 && th.NS.Waiting > 0 {
			unknownWaits++
		}
	}
	if unknownWaits > 0 {
		t.Errorf("%s: %d threads waited and have no waits", name, unknownWaits)
	}
	if len(st.Threads) != len(listed) && st.ThreadsOmitted == 0 {
		t.Errorf("%s: %d threads in stat, %d listed", name, len(st.Threads), len(listed))
	}
	var gvlWaiting float64
	for _, g := range st.GVL {
		gvlWaiting += g.WaitingMean
		if g.HeldShare < 0 || g.HeldShare > 1.0000001 {
			t.Errorf("%s: held share %v", name, g.HeldShare)
		}
	}
	if d := gvlWaiting*float64(st.DurationNS) - float64(waiting); d > 1e3 || d < -1e3 {
		t.Errorf("%s: waiting by ractor and by thread differ by %v", name, d)
	}
	for _, by := range []account.BlameBy{account.ByStack, account.ByThread, account.ByFrame} {
		rep := v.Blame.Top(1<<20, by, 0)
		sum := rep.NobodyNS + rep.OtherNS
		for _, e := range rep.Entries {
			sum += e.NS
		}
		if rep.TotalNS != waiting || sum != waiting {
			t.Errorf("%s: blame %d: total %d, parts %d, waiting %d", name, by, rep.TotalNS, sum, waiting)
		}
	}
	checkTimeline(t, v, &st, name)
	if _, err := json.Marshal(st); err != nil {
		t.Error(err)
	}
}

// checkTimeline compares the sums of the timeline with the sums of the account. The timeline counts time in units of 2
// µs. So for each state and column, the sums may differ by one unit.
func checkTimeline(t *testing.T, v *View, st *report.Stat, name string) {
	t.Helper()
	from, to := v.Timeline.Range()
	columns := (to-from)/v.Timeline.ColumnNS() + 2
	slack := columns * int64(gvl.NumStates) * v.Timeline.ColumnNS() / timeline.UnitsPerColumn
	var procWait, procHeld int64
	for _, th := range st.Threads {
		got := report.StatesOf(v.Timeline.Totals(th.ID, from, to+v.Timeline.ColumnNS()))
		for _, d := range []int64{got.Running - th.NS.Running, got.Waiting - th.NS.Waiting, got.IO - th.NS.IO,
			got.Unknown - th.NS.Unknown, got.Lock - th.NS.Lock, got.Stalled - th.NS.Stalled, got.GC - th.NS.GC} {
			if d > slack || d < -slack {
				t.Errorf("%s: thread %d: timeline %+v, account %+v", name, th.ID, got, th.NS)
				break
			}
		}
		procWait += th.NS.Waiting
		procHeld += th.NS.Running + th.NS.Stalled + th.NS.GC
	}
	fromW, toW := v.Timeline.Window(to, to-from, 37)
	var wait, held, sampled int64
	for _, c := range v.Timeline.Process(fromW, toW, 37) {
		wait += c.WaitNS
		held += c.HeldNS
		sampled += c.SampledNS
	}
	for _, d := range []int64{wait - procWait, held - procHeld, sampled - (st.DurationNS - st.NotSampled)} {
		if d > slack || d < -slack {
			t.Errorf("%s: lanes: waiting %d of %d, held %d of %d, sampled %d of %d", name, wait, procWait, held, procHeld,
				sampled, st.DurationNS-st.NotSampled)
			break
		}
	}
	held = 0
	for _, r := range v.Timeline.Ractors() {
		for _, c := range v.Timeline.Owners(r, fromW, toW, 37) {
			held += c.HeldNS
			if c.HeldByOwnerNS > c.HeldNS+slack || c.Owner == 0 && c.HeldByOwnerNS != 0 {
				t.Errorf("%s: owner cell %+v", name, c)
			}
		}
	}
	if d := held - procHeld; d > slack || d < -slack {
		t.Errorf("%s: owner lanes: held %d of %d", name, held, procHeld)
	}
}

func TestFoldSteadyStateAllocatesNothing(t *testing.T) {
	dict := sampler.NewDictionary()
	f := NewFold(gvltest.ProcOf(sampler.EraSched), dict, Options{Columns: 64})
	w := gvltest.NewWorld(3, 100, 1, dict)
	var samples []*sampler.Sample
	for range 300 {
		samples = append(samples, w.Sample())
	}
	span := samples[len(samples)-1].TimeNS - samples[0].TimeNS + gvltest.MS
	round := func() {
		for _, s := range samples {
			f.Feed(s)
			s.TimeNS += span
			for i := range s.Threads {
				if k := &s.Threads[i].Kernel; k.StateAtNS != 0 {
					k.StateAtNS += span
					k.CPUAtNS += span
				}
			}
		}
	}
	// Fill the timeline's ring once.
	for range 80 {
		round()
	}
	if n := testing.AllocsPerRun(3, round); n > 100 { // the rules run about four times per second, and build texts
		t.Errorf("%v allocations in %d samples", n, len(samples))
	}
}

// TestFoldView: a View has the newest sample and the states of its threads. Before the first sample, it has no sample.
func TestFoldView(t *testing.T) {
	dict := sampler.NewDictionary()
	f := NewFold(gvltest.ProcOf(sampler.EraSched), dict, Options{})
	if v := f.View(); v.Sample != nil {
		t.Error("a state before the first sample")
	}
	w := gvltest.NewWorld(1, 10, 2, dict)
	for range 10 {
		f.Feed(w.Sample())
	}
	if v := f.View(); v.Sample == nil || len(v.States) != len(v.Sample.Threads) || v.Sample.TimeNS != w.Now {
		t.Errorf("last state: %v, %d states", v.Sample, len(v.States))
	}
}

func BenchmarkFeed(b *testing.B) {
	for _, n := range []int{10, 100, 500} {
		for _, kind := range []string{"idle", "busy"} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				dict := sampler.NewDictionary()
				f := NewFold(gvltest.ProcOf(sampler.EraSched), dict, Options{})
				w := gvltest.NewWorld(1, n, 1, dict)
				var samples []*sampler.Sample
				for range 200 {
					s := w.Sample()
					if kind == "idle" && len(samples) > 0 {
						s.Threads, s.Ractors = samples[0].Threads, samples[0].Ractors
					}
					samples = append(samples, s)
				}
				span := samples[len(samples)-1].TimeNS - samples[0].TimeNS + gvltest.MS
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					s := samples[i]
					f.Feed(s)
					s.TimeNS += span
					if i++; i == len(samples) {
						i = 0
					}
				}
			})
		}
	}
}

func BenchmarkRows(b *testing.B) {
	dict := sampler.NewDictionary()
	f := NewFold(gvltest.ProcOf(sampler.EraSched), dict, Options{})
	w := gvltest.NewWorld(1, 50, 1, dict)
	for range 40_000 {
		f.Feed(w.Sample())
	}
	from, to := f.timeline.Window(w.Now, 30e9, 100)
	var buf []timeline.Cell
	b.ReportAllocs()
	for b.Loop() {
		for id := sampler.ThreadID(1); id <= 50; id++ {
			buf = f.timeline.AppendRow(buf[:0], id, from, to, 100)
		}
	}
}

// TestLateAnswer: the kernel's answer about a thread comes late. It must explain the whole time since the thread's
// state began, even in columns of the timeline that are already complete.
func TestLateAnswer(t *testing.T) {
	dict := sampler.NewDictionary()
	f := NewFold(gvltest.ProcOf(sampler.EraSched), dict, Options{})
	at := int64(gvltest.Base)
	for range 100 {
		f.Feed(gvltest.SampleAt(at, 1, gvltest.Holder(1)))
		at += gvltest.MS
	}
	for range 350 {
		f.Feed(gvltest.SampleAt(at, 0, gvltest.Released(1)))
		at += gvltest.MS
	}
	for range 51 {
		f.Feed(gvltest.SampleAt(at, 0, gvltest.Answered(gvltest.Released(1), gvltest.Base+450*gvltest.MS, "read", 3, 0)))
		at += gvltest.MS
	}
	v := f.View()
	tot, _ := v.Account.Thread(1)
	if tot.NS[gvl.Unknown] != 0 || tot.NS[gvl.IO] != 400*gvltest.MS+gvltest.MS/2 || tot.NS[gvl.Running] != 99*gvltest.MS+gvltest.MS/2 {
		t.Errorf("account: %v", tot.NS)
	}
	got := v.Timeline.Totals(1, gvltest.Base, gvltest.Base+500*gvltest.MS)
	if got[gvl.Unknown] != 0 || got[gvl.IO] != 400*gvltest.MS+gvltest.MS/2 || got[gvl.Running] != 99*gvltest.MS+gvltest.MS/2 {
		t.Errorf("timeline: %v", got)
	}
}
