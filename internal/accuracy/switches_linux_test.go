package accuracy

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live"
	"github.com/ddtop/ddtop/sampler/switches/tracer"
)

// times sums up the time of each thread in each state between two instants.
func (k *kept) times(from, to int64) map[int32][4]int64 {
	sums := make(map[int32][4]int64)
	for _, i := range k.intervals {
		a, b := max(i.FromNS, from), min(i.ToNS, to)
		if a >= b {
			continue
		}
		s := sums[i.TID]
		s[i.State] += b - a
		sums[i.TID] = s
	}
	return sums
}

// besideExact follows a load by breakpoints and by thread switches in the same seconds. It returns how far the shares of running are apart, and
// how much waiting the switches miss, in points, the mean of the threads. They may say more of it: a thread that waits for the scheduler's own
// mutex, or lost its CPU on its way into the queue, is released by the breakpoints, and waits by the switches.
//
// bound is how much waiting may be missed by chance: when another thread has put one into the queue is known to the time between two ticks of
// the clock.
func besideExact(t *testing.T, r rubytest.Ruby, load string, d time.Duration) (running, missed, bound float64, report live.SwitchReport) {
	t.Helper()
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := start(t, r, load, false)
	exactly, switched := new(kept), new(kept)
	var sources [2]*live.Source
	for i := range sources {
		s, err := live.Open(t.Context(), p.PID, live.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sources[i] = s
	}
	if err := sources[0].Exact(t.Context(), live.ExactOptions{MaxCost: 1, To: exactly}); err != nil {
		t.Fatal(err)
	}
	if err := sources[1].Switches(t.Context(), switched); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var both sync.WaitGroup
	for _, s := range sources {
		both.Go(func() {
			if err := s.Run(ctx, func(*sampler.Sample) {}); err != nil {
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
	from, to := max(report.FromNS, e.FromNS), min(report.ToNS, e.ToNS)
	a, b := exactly.times(from, to), switched.times(from, to)
	if len(b) < len(p.workers) {
		t.Errorf("%d threads were seen, and there are %d", len(b), len(p.workers))
	}
	waits := make(map[int32]float64)
	for _, w := range exactly.waits {
		waits[w.TID]++
	}
	for tid := range a {
		if n := waits[tid]; n > 0 {
			bound += 100 * n * odds.Within(n) * tracer.ClockNS / float64(to-from) / float64(len(a))
		}
		share := func(ns int64) float64 { return 100 * float64(ns) / float64(to-from) / float64(len(a)) }
		running += math.Abs(share(a[tid][exact.Running] - b[tid][exact.Running]))
		missed += max(share(a[tid][exact.Waiting]-b[tid][exact.Waiting]), 0)
	}
	return running, missed, bound, report
}

// TestSwitchesBesideExact: shares of running by thread switches are those by breakpoints in the same seconds, to 0.3 points in the mean, and no
// more waiting is missed. Where threads put each other into the queue the clock dates that.
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

// TestSwitchesShares: with the default budget the shares of a measurement are those by breakpoints in the same seconds, to 0.3 points of the
// time with the GVL in the mean. What sampling with that budget says beside it is printed.
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
		if err := sources[0].Exact(t.Context(), live.ExactOptions{MaxCost: 1, To: exactly}); err != nil {
			t.Fatal(err)
		}
		if err := sources[1].Switches(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var stats [3]gvl.Stat
		var all sync.WaitGroup
		for i, s := range sources {
			all.Go(func() {
				m := gvl.NewMeasure(s.Process(), s.Dictionary(), nil)
				if err := s.Run(ctx, func(x *sampler.Sample) { m.Feed(x) }); err != nil {
					t.Error(err)
				}
				stats[i] = m.Stat(0)
			})
		}
		all.Wait()
		if _, err := sources[0].EndExact(); err != nil {
			t.Error(err)
		}
		off := func(s *gvl.Stat) (mean [3]float64) {
			truth := exactly.times(s.StartNS, s.EndNS)
			for i := range s.Threads {
				th := &s.Threads[i]
				if th.TID == nil {
					continue
				}
				n, x := th.NS, truth[*th.TID]
				for k, ns := range [3]int64{n.Running + n.Stalled + n.GC, n.Waiting, n.Native + n.IO + n.Lock + n.Parked + n.Sleeping + n.Unknown} {
					mean[k] += 100 * math.Abs(float64(ns-x[k+1])) / float64(s.DurationNS) / float64(len(s.Threads))
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
