package accuracy

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// besides measures a process by several sources with ddtop's default CPU budget, while exact mode follows the same
// process. stats has the result of each source. off has the errors of the shares of running, waiting and released, in
// points, as the mean over the threads. The shares are taken over the longest time in which the source knew all changes
// of the GVL. For polling, they are taken over the whole time. unseen is how much of the error of running can be due to
// chance (unseenBy).
func besides(t *testing.T, pid int, d time.Duration, by ...live.From) (
	stats []report.Stat, off [][3]float64, unseen []float64,
) {
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
	// The other sources start after exact mode's first sample and end before its last. So exact mode covers their whole
	// time.
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
	stats, off, unseen = make([]report.Stat, len(by)), make([][3]float64, len(by)), make([]float64, len(by))
	keeps, seen := make([]kept, len(by)), make([][]seenAt, len(by))
	sources := make([]*live.Source, len(by))
	for i, from := range by {
		s, err := live.Open(t.Context(), pid, live.Options{Overhead: 0.03, From: from})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sources[i] = s
	}
	// On a busy machine, opening the sources can take longer than d. Therefore the time d begins only here.
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for i, from := range by {
		s := sources[i]
		all.Go(func() {
			keeps[i].follow(s)
			if err := s.Run(ctx, func(x *sampler.Sample) {
				keeps[i].take(x)
				seen[i] = append(seen[i], seenAt{x.TimeNS, int64(rubytest.RunDelay(t, pid))})
			}); err != nil {
				t.Error(err)
			}
			stats[i] = keeps[i].measure.Stat(0)
			keeps[i].measure.Stream().Finish()
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
		of := keeps[i].longest
		if by[i] == live.FromPolling {
			of = known{stats[i].StartNS, stats[i].EndNS}
		}
		switch {
		case by[i] != live.FromPolling && of.toNS-of.fromNS < int64(d)/5:
			rubytest.Skip(t, "on this machine, now, %s did not know all changes for long enough", by[i])
		case of.fromNS == of.toNS:
			continue // this source delivered no samples
		}
		is, truth := keeps[i].times(of.fromNS, of.toNS), exactly.times(of.fromNS, of.toNS)
		n := float64(len(truth))
		for tid := range truth {
			for k := range off[i] {
				off[i][k] += 100 * math.Abs(float64(is[tid][k]-truth[tid][k])) / float64(of.toNS-of.fromNS) / n
			}
		}
		unseen[i] = unseenBy(seen[i], exactly.intervals, of) * 2 / n
	}
	return stats, off, unseen
}

// seenAt is the time of a sample. delayNS is the total time, in ns, that the process's threads had waited for a CPU
// until this sample.
type seenAt struct{ atNS, delayNS int64 }

// unseenBy returns by how many points the time with the GVL can be wrong by chance. Such an error adds time to one
// thread and takes it from another. The source FromMoved uses the kernel's reports of threads that get or lose a CPU
// (moves). It shows what a thread does only if the thread gets a CPU when it wants one. If threads lack a CPU between
// two samples, the GVL can change hands at any time in between.
//
// The error is at most the time without a CPU, and at most the time between the samples. It is zero if the holder did
// not change. All errors together are at most their sum. Each error can be positive or negative. So by chance they add
// up to at most about the root of the sum of their squares (Hoeffding's inequality).
func unseenBy(seen []seenAt, truth []gvl.Interval, of known) float64 {
	var sum, squares float64
	for i := 1; i < len(seen); i++ {
		a, b := seen[i-1], seen[i]
		if b.atNS <= of.fromNS || a.atNS >= of.toNS || !slices.ContainsFunc(truth, func(x gvl.Interval) bool {
			return x.State.Held() && (x.FromNS > a.atNS && x.FromNS <= b.atNS || x.ToNS > a.atNS && x.ToNS <= b.atNS)
		}) {
			continue
		}
		u := float64(min(b.atNS-a.atNS, b.delayNS-a.delayNS))
		sum, squares = sum+u, squares+u*u
	}
	return 100 * min(sum, math.Sqrt(math.Log(2/odds.FalseAlarm)/2*squares)) / float64(of.toNS-of.fromNS)
}

// TestMovedShares: ddtop follows threads by moves, the kernel's reports that they get or lose a CPU. It uses its
// default CPU budget. Exact mode measures the same seconds. The threads' shares of running differ by at most half a
// point in the mean. The test allows more for times in which threads lacked a CPU, because such times can hide changes
// of the GVL. It also prints the errors of plain sampling, but does not judge them.
func TestMovedShares(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		rubytest.NeedExact(t, r)
		p := start(t, r, "cpu_io", false)
		stats, off, unseen := besides(t, p.PID, time.Second, live.FromMoved, live.FromPolling)
		rubytest.Report(t, "points off, running waiting released: %.3f by moves (by chance %.3f, %d samples), %.3f by %d samples",
			off[0], unseen[0], stats[0].Samples, off[1], stats[1].Samples)
		if off[0][0] > 0.5+unseen[0] {
			t.Errorf("running, waiting and released are %.3f points off, by chance up to %.3f", off[0], unseen[0])
		}
	})
}
