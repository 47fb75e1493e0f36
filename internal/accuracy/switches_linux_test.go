package accuracy

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/switches/tracer"
)

// besideExact follows a load in the same seconds in two ways: by the breakpoints of exact mode, and by the kernel's
// thread switches. running is how far the two shares of running are apart. missed is how much of the waiting the
// switches miss. Both are in points, as the mean over the threads.
//
// The switches may show more waiting than the breakpoints. For example, a thread may wait for the mutex of Ruby's
// thread scheduler, or lose its CPU on its way into the queue. By the breakpoints, this thread has released the GVL and
// does not wait yet. By the switches, it waits.
//
// bound is how much of the waiting the switches may miss by chance. If one thread puts another one into the queue, the
// switches show the time of this only to a tick of the clock.
func besideExact(t *testing.T, r rubytest.Ruby, load string, d time.Duration) (running, missed, bound float64, report live.SwitchReport) {
	t.Helper()
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := start(t, r, load, false)
	var sources [2]*live.Source
	var keeps [2]kept
	for i := range sources {
		s, err := live.Open(t.Context(), p.PID, live.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sources[i] = s
	}
	if err := sources[0].Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
		t.Fatal(err)
	}
	if err := sources[1].Switches(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var both sync.WaitGroup
	for i, s := range sources {
		keeps[i].follow(s)
		both.Go(func() {
			if err := s.Run(ctx, keeps[i].take); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	e, err := sources[0].EndExact()
	if err != nil || e.Ended != "" || e.Lost != 0 {
		t.Errorf("%v, %+v", err, e)
	}
	if report, err = sources[1].EndSwitches(); err != nil || report.Ended != "" || report.Lost != 0 || report.Failed != 0 || report.Records == 0 {
		t.Errorf("%v, %+v", err, report)
	}
	for i := range keeps {
		keeps[i].finish(t, d/10)
	}
	from, to := max(keeps[0].longest.fromNS, keeps[1].longest.fromNS), min(keeps[0].longest.toNS, keeps[1].longest.toNS)
	if from >= to {
		rubytest.Skip(t, "on this machine, now, the two did not know the same time")
	}
	a, b := keeps[0].times(from, to), keeps[1].times(from, to)
	if len(b) < len(p.workers) {
		t.Errorf("%d threads were seen, and there are %d", len(b), len(p.workers))
	}
	waits := make(map[int32]float64)
	for _, w := range keeps[0].waits {
		waits[keeps[0].tids[w.Thread]]++
	}
	for tid := range a {
		if n := waits[tid]; n > 0 {
			bound += 100 * n * odds.Within(n) * tracer.ClockNS / float64(to-from) / float64(len(a))
		}
		share := func(ns int64) float64 { return 100 * float64(ns) / float64(to-from) / float64(len(a)) }
		running += math.Abs(share(a[tid][holding] - b[tid][holding]))
		missed += max(share(a[tid][waiting]-b[tid][waiting]), 0)
	}
	return running, missed, bound, report
}

// TestSwitchesBesideExact: ddtop follows a load in the same seconds by thread switches and by the breakpoints of exact
// mode. Their shares of running differ by at most 0.3 points in the mean. The switches miss at most 0.3 points of
// waiting. Under the load mutex_queue they may miss more. There, threads put each other into the queue, and the
// switches know the time of this only to a tick of the clock. So the limit is what can be missed by chance between two
// ticks.
func TestSwitchesBesideExact(t *testing.T) {
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		for _, load := range []string{"mutex_queue", "cpu_io", "cpu", "gc"} {
			t.Run(load, func(t *testing.T) {
				if load == "cpu" || load == "gc" {
					rubytest.Long(t)
				}
				running, missed, bound, report := besideExact(t, r, load, time.Second)
				rubytest.Report(t, "%.3f points of running off by %d records, %.3f of waiting missed; by chance up to %.3f", running, report.Records, missed, bound)
				if load != "mutex_queue" {
					bound = 0.3
				}
				if running > 0.3 || missed > bound {
					t.Errorf("the share of running is %.3f points off, and %.3f points of waiting are missed", running, missed)
				}
			})
		}
	})
}

// TestSwitchesShares: ddtop measures by thread switches with its default CPU budget, and breakpoints measure the same
// seconds. The threads' shares of running differ by at most 0.3 points in the mean. The test also prints the errors of
// plain sampling with this budget.
func TestSwitchesShares(t *testing.T) {
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.OldestAndNewest(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		p := start(t, r, "cpu_io", false)
		exactly := new(kept)
		var sources [3]*live.Source
		for i := range sources {
			o := live.Options{Overhead: 0.03}
			if i == 0 {
				o.Overhead = 0
			}
			s, err := live.Open(t.Context(), p.PID, o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			sources[i] = s
		}
		if err := sources[0].Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
			t.Fatal(err)
		}
		if err := sources[1].Switches(t.Context()); err != nil {
			t.Fatal(err)
		}
		// The other sources start after exact mode's first sample and end before its last. So exact mode covers their
		// whole time.
		began := make(chan struct{})
		begin := sync.OnceFunc(func() { close(began) })
		var untilNS atomic.Int64
		exactCtx, stop := context.WithCancel(t.Context())
		defer stop()
		exactly.follow(sources[0])
		var exact sync.WaitGroup
		exact.Go(func() {
			defer begin()
			if err := sources[0].Run(exactCtx, func(x *sampler.Sample) {
				if exactly.take(x); exactly.now.fromNS != 0 {
					begin()
				}
				if until := untilNS.Load(); until != 0 && x.TimeNS >= until {
					stop()
				}
			}); err != nil {
				t.Error(err)
			}
		})
		<-began
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var stats [3]report.Stat
		var all sync.WaitGroup
		for i, s := range sources[1:] {
			all.Go(func() {
				m := measure.New(s.Process(), s.Dictionary(), nil)
				if err := s.Run(ctx, func(x *sampler.Sample) { m.Feed(x) }); err != nil {
					t.Error(err)
				}
				stats[i+1] = m.Stat(0)
			})
		}
		all.Wait()
		untilNS.Store(max(stats[1].EndNS, stats[2].EndNS))
		exact.Wait()
		if exactly.finish(t, time.Second); exactly.longest != exactly.now {
			rubytest.Skip(t, "on this machine, now, a time in between is not known")
		}
		if _, err := sources[0].EndExact(); err != nil {
			t.Error(err)
		}
		off := func(s *report.Stat) (mean [3]float64) {
			truth := exactly.times(s.StartNS, s.EndNS)
			for i := range s.Threads {
				th := &s.Threads[i]
				if th.TID == nil {
					continue
				}
				n, x := th.NS, truth[*th.TID]
				for k, ns := range [3]int64{n.Running + n.Stalled + n.GC, n.Waiting, n.Native + n.IO + n.Lock + n.Parked + n.Sleeping + n.Unknown} {
					mean[k] += 100 * math.Abs(float64(ns-x[k])) / float64(s.DurationNS) / float64(len(s.Threads))
				}
			}
			return mean
		}
		switched, polled := off(&stats[1]), off(&stats[2])
		rubytest.Report(t, "points off, running waiting released: %.3f by switches with %d samples, %.3f by %d samples alone", switched, stats[1].Samples, polled, stats[2].Samples)
		if switched[0] > 0.3 {
			t.Errorf("the shares of running, waiting and released are %.3f points off", switched)
		}
	})
}
