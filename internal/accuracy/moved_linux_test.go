package accuracy

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl/measure"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// besides measures a process with the default budget by several sources in the same seconds, beside breakpoints. It returns of each its
// Stat, and how far its shares of running, waiting and released are off, in points, the mean of the threads.
func besides(t *testing.T, pid int, d time.Duration, by ...live.From) (stats []report.Stat, off [][3]float64) {
	t.Helper()
	exactly := new(kept)
	truth, err := live.Open(t.Context(), pid, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer truth.Close()
	if err := truth.Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
		t.Fatal(err)
	}
	// The others measure between two samples of the exact one.
	began := make(chan struct{})
	begin := sync.OnceFunc(func() { close(began) })
	var untilNS atomic.Int64
	exactCtx, stop := context.WithCancel(t.Context())
	defer stop()
	exactly.follow(truth)
	var exact sync.WaitGroup
	exact.Go(func() {
		defer begin()
		if err := truth.Run(exactCtx, func(x *sampler.Sample) {
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
	stats, off = make([]report.Stat, len(by)), make([][3]float64, len(by))
	sources := make([]*live.Source, len(by))
	for i, from := range by {
		s, err := live.Open(t.Context(), pid, live.Options{Overhead: 0.03, From: from})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sources[i] = s
	}
	// On a full machine opening them can take longer than the measurement.
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for i, from := range by {
		s := sources[i]
		all.Go(func() {
			m := measure.New(s.Process(), s.Dictionary(), nil)
			if err := s.Run(ctx, func(x *sampler.Sample) { m.Feed(x) }); err != nil {
				t.Error(err)
			}
			stats[i] = m.Stat(0)
			if st := s.SwitchStatus(); st.Ended != "" {
				t.Errorf("by %s: %s", from, st.Ended)
			}
		})
	}
	all.Wait()
	var until int64
	for i := range stats {
		until = max(until, stats[i].EndNS)
	}
	if until == 0 {
		stop()
		exact.Wait()
		rubytest.TooSeldomNow(t, "no sample was taken in %v", d)
	}
	untilNS.Store(until)
	exact.Wait()
	if exactly.finish(t, d); exactly.longest != exactly.now {
		rubytest.Skip(t, "on this machine, now, a time in between is not known")
	}
	if _, err := truth.EndExact(); err != nil {
		t.Error(err)
	}
	for i := range stats {
		s := &stats[i]
		is := exactly.times(s.StartNS, s.EndNS)
		for j := range s.Threads {
			th := &s.Threads[j]
			if th.TID == nil {
				continue
			}
			n, x := th.NS, is[*th.TID]
			for k, ns := range [3]int64{n.Running + n.Stalled + n.GC, n.Waiting, n.Native + n.IO + n.Lock + n.Parked + n.Sleeping + n.Unknown} {
				off[i][k] += 100 * math.Abs(float64(ns-x[k])) / float64(s.DurationNS) / float64(len(s.Threads))
			}
		}
	}
	return stats, off
}

// TestMovedShares: by moves the shares of a measurement with the default budget are those by breakpoints in the same seconds, to half a point of
// the time with the GVL in the mean. What sampling says beside it is printed.
func TestMovedShares(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		p := start(t, r, "cpu_io", false)
		stats, off := besides(t, p.PID, time.Second, live.FromMoved, live.FromPolling)
		rubytest.Report(t, "points off, running waiting released: %.3f by moves with %d samples, %.3f by %d samples alone", off[0], stats[0].Samples, off[1], stats[1].Samples)
		if off[0][0] > 0.5 {
			t.Errorf("the shares of running, waiting and released are %.3f points off", off[0])
		}
	})
}
