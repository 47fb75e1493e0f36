package live_test

import (
	"context"
	"math"
	"strconv"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// jobThreads starts a thread for each job, and prints the CPU time of all jobs in ns. Each thread also sleeps, so that
// the next thread may run on a native thread that Ruby has kept.
const jobThreads = `$stdout.sync = true
puts "ready"
$stdin.gets
def cpu
  Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
end
ns = 0
100.times do
  ns += 3.times.map do
    Thread.new do
      from = cpu
      20_000.times { |i| i * i }
      took = cpu - from
      sleep 0.001
      took
    end
  end.sum(&:value)
end
puts ns
$stdin.gets`

// TestExactModeJobThreads: exact mode sees every hold of threads that live only for one job. A thread uses its CPU time
// while it holds the GVL. So all holds together take at least the CPU time that the program itself has measured. Only a
// real Ruby reuses its native threads, and gives them the GVL before they know their new Ruby thread.
func TestExactModeJobThreads(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		p, s := openExact(t, r, jobThreads, rubytest.Options{})
		if err := s.Exact(t.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		defer cancel()
		var told timesIn
		going, did, endNS := false, make(chan float64, 1), int64(0)
		var want float64
		if err := s.Run(ctx, func(x *sampler.Sample) {
			told.take(x)
			select {
			case want = <-did:
				endNS = x.TimeNS
			default:
			}
			switch {
			case !going && x.Changes.Known():
				going = true
				p.Send(t, "go")
				go func() {
					ns, _ := strconv.ParseFloat(p.Line(t), 64)
					did <- ns
				}()
			case endNS != 0 && told.toNS > endNS:
				cancel()
			}
		}); err != nil {
			t.Fatal(err)
		}
		times, _ := told.between(math.MinInt64, told.toNS)
		held := 0.0
		for _, sums := range times {
			held += sums[0]
		}
		rubytest.Report(t, "held %.1f ms, CPU time %.1f ms", held/1e6, want/1e6)
		if want == 0 || held < want {
			t.Errorf("all holds take %.1f ms, and the jobs used %.1f ms of CPU time", held/1e6, want/1e6)
		}
	})
}
