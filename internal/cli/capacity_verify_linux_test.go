//go:build verify

package cli_test

import (
	"encoding/json"
	"math"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
)

// TestPredictedThroughput: what stat predicts of a real Puma with five threads is what it serves with other numbers, to
// a tenth. Requests hold the GVL without a CPU, so that other processes of the machine change little. A simulation
// shows the same of many more loads; it does not show that ddtop's times, and the sizes of pools, lead to it.
func TestPredictedThroughput(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	loads := map[string]string{"cpu": "/mixed?9000,1000", "mixed": "/mixed?4000,8000", "io": "/mixed?1000,12000"}
	for name, path := range loads {
		t.Run(name, func(t *testing.T) {
			// All of them at once: what else the machine does then changes all of their rates.
			pids, served, before := make(map[int]int), make(map[int]*atomic.Int64), make(map[int]int64)
			for _, threads := range []int{1, 3, 5, 8} {
				pids[threads], served[threads] = busyPuma(t, threads, path)
			}
			for threads, n := range served {
				before[threads] = n.Load()
			}
			from := time.Now()
			c := capacityOf(t, pids[5])
			until(t, func() bool { return served[1].Load() >= before[1]+300 }, "300 answers of one thread")
			took, rates := time.Since(from).Seconds(), make(map[int]float64)
			for threads, n := range served {
				rates[threads] = float64(n.Load()-before[threads]) / took
			}
			all := served[5].Load() - before[5]
			t.Logf("%d requests of %d, %.2f busy, variance %.2f", c.Requests, all, c.BusyMean, c.Variance)
			if c.Why != nil {
				t.Fatalf("no prediction: %s", *c.Why)
			}
			for threads, rate := range rates {
				p, ok := c.At(threads)
				truth := rate / rates[5]
				t.Logf("%d threads: %.1f/s, predicted %.3f, measured %.3f, lost to the GVL %.2f", threads, rate,
					p.Throughput, truth, p.WaitingShare)
				if !ok || math.Abs(p.Throughput/truth-1) > .1 {
					rubytest.TooSeldom(t, "%d threads: predicted %.3f, measured %.3f", threads, p.Throughput, truth)
				}
			}
		})
	}
}

// capacityOf measures a process.
func capacityOf(t *testing.T, pid int) *report.StatCapacity {
	t.Helper()
	r := run(t, "stat", "-p", strconv.Itoa(pid), "-d", "4", "--json")
	r.want(t, 0)
	var s struct{ Capacity *report.StatCapacity }
	if err := json.Unmarshal([]byte(r.out), &s); err != nil || s.Capacity == nil {
		t.Fatalf("%v: %.300s", err, r.out)
	}
	return s.Capacity
}
