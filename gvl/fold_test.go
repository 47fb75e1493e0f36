package gvl

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// Whatever the stream: one GVL has one holder at most; a thread's times sum to the time it was listed; blame, account
// and timeline agree on how long threads waited.
func TestProperties(t *testing.T) {
	for _, era := range eras {
		for seed := range uint64(12) {
			dict := sampler.NewDictionary()
			f := NewFold(procOf(era), dict, Options{})
			w := newWorld(seed, 2+int(seed), 1+int(seed%3), dict)
			w.churn = []float64{0, .02, .3}[seed%3]
			w.gaps = []float64{0, .001}[seed%2]
			listed := map[sampler.ThreadID]int64{} // by the rule, independently
			var prev map[sampler.ThreadID]bool
			var prevAt int64
			for range 3000 {
				s := w.sample()
				states := f.Feed(s)
				oneHolder(t, s, states)
				now := map[sampler.ThreadID]bool{}
				for _, th := range s.Threads {
					now[th.ID] = true
				}
				if prev != nil {
					mid := prevAt + (s.TimeNS-prevAt)/2
					gap := s.TimeNS-prevAt > ReachOf(procOf(era)).GapNS
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

func oneHolder(t *testing.T, s *sampler.Sample, states []ThreadState) {
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
	f.Read(func(v *View) {
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
		for _, by := range []blameBy{blameByStack, blameByThread, blameByFrame} {
			rep := v.Blame.top(1<<20, by, 0)
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
	})
}

// The timeline keeps 2 µs units; its sums and the account's agree to a unit a state and column.
func checkTimeline(t *testing.T, v *View, st *Stat, name string) {
	t.Helper()
	from, to := v.Timeline.Range()
	columns := (to-from)/v.Timeline.ColumnNS() + 2
	slack := columns * int64(NumStates) * v.Timeline.ColumnNS() / unitsPerColumn
	var procWait, procHeld int64
	for _, th := range st.Threads {
		got := StatesOf(v.Timeline.Totals(th.ID, from, to+v.Timeline.ColumnNS()))
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
	f := NewFold(procOf(sampler.EraSched), dict, Options{Columns: 64})
	w := newWorld(3, 100, 1, dict)
	var samples []*sampler.Sample
	for range 300 {
		samples = append(samples, w.sample())
	}
	span := samples[len(samples)-1].TimeNS - samples[0].TimeNS + ms
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
	if n := testing.AllocsPerRun(3, round); n > 100 { // the rules, asked some four times a second, build texts
		t.Errorf("%v allocations in %d samples", n, len(samples))
	}
}

func TestFoldReadsWhileFed(t *testing.T) {
	dict := sampler.NewDictionary()
	f := NewFold(procOf(sampler.EraSched), dict, Options{})
	f.Read(func(v *View) {
		if v.Sample != nil {
			t.Error("a state before the first sample")
		}
	})
	w := newWorld(1, 10, 2, dict)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for range 2000 {
			f.Feed(w.sample())
		}
	}()
	for range 50 {
		f.Read(func(v *View) {
			from, to := v.Timeline.Range()
			v.Timeline.Row(1, from, to, 80)
			v.Blame.top(5, blameByFrame, 30e9)
			v.Findings.Current()
		})
	}
	wg.Wait()
	f.Read(func(v *View) {
		if v.Sample == nil || len(v.States) != len(v.Sample.Threads) || v.Sample.TimeNS != w.now {
			t.Errorf("last state: %v, %d states", v.Sample, len(v.States))
		}
	})
}

func BenchmarkFeed(b *testing.B) {
	for _, n := range []int{10, 100, 500} {
		for _, kind := range []string{"idle", "busy"} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				dict := sampler.NewDictionary()
				f := NewFold(procOf(sampler.EraSched), dict, Options{})
				w := newWorld(1, n, 1, dict)
				var samples []*sampler.Sample
				for range 200 {
					s := w.sample()
					if kind == "idle" && len(samples) > 0 {
						s.Threads, s.Ractors = samples[0].Threads, samples[0].Ractors
					}
					samples = append(samples, s)
				}
				span := samples[len(samples)-1].TimeNS - samples[0].TimeNS + ms
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
	f := NewFold(procOf(sampler.EraSched), dict, Options{})
	w := newWorld(1, 50, 1, dict)
	for range 40_000 {
		f.Feed(w.sample())
	}
	from, to := f.timeline.Window(w.now, 30e9, 100)
	var buf []Cell
	b.ReportAllocs()
	for b.Loop() {
		for id := sampler.ThreadID(1); id <= 50; id++ {
			buf = f.timeline.AppendRow(buf[:0], id, from, to, 100)
		}
	}
}

// A late answer of the kernel is given to the whole episode, in the account and in closed columns of the timeline.
func TestLateAnswer(t *testing.T) {
	dict := sampler.NewDictionary()
	f := NewFold(procOf(sampler.EraSched), dict, Options{})
	at := int64(base)
	for range 100 {
		f.Feed(sampleAt(at, 1, holder(1)))
		at += ms
	}
	for range 350 {
		f.Feed(sampleAt(at, 0, released(1)))
		at += ms
	}
	for range 51 {
		f.Feed(sampleAt(at, 0, answered(released(1), base+450*ms, "read", 3, 0)))
		at += ms
	}
	f.Read(func(v *View) {
		tot, _ := v.Account.Thread(1)
		if tot.NS[Unknown] != 0 || tot.NS[IO] != 400*ms+ms/2 || tot.NS[Running] != 99*ms+ms/2 {
			t.Errorf("account: %v", tot.NS)
		}
		got := v.Timeline.Totals(1, base, base+500*ms)
		if got[Unknown] != 0 || got[IO] != 400*ms+ms/2 || got[Running] != 99*ms+ms/2 {
			t.Errorf("timeline: %v", got)
		}
	})
}
