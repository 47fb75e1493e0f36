//go:build verify

package accuracy

import (
	"context"
	"fmt"
	"math"
	"sync"
	"syscall"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// pairs is the number of rounds. Each round measures three intervals. The second constant is the length of one
// interval, in seconds.
const (
	pairs   = 12
	stretch = "0.8"
)

// quantile95 is the factor of a 95 % confidence interval: Student's t for pairs-1 = 11 degrees of freedom.
const quantile95 = 2.201

// TestSlowDown prints how much slower a program gets while ddtop watches it. Each round measures the program's speed
// three times, in changing order: while ddtop watches nothing, while it watches the program, and while it watches
// another process. The other process runs the same code but is stopped. The test prints the ratios of the speeds, and
// of the CPU times per operation, with a 95 % interval.
//
// Watching the other process shows what ddtop costs only because it uses the same machine. ddtop takes CPU time, and
// half a core if two CPUs share a core. Watching the program itself shows what reading costs in addition: cache lines
// fetched from the program's CPU, and the program's mmap lock.
func TestSlowDown(t *testing.T) {
	r := rubytest.One(t)
	for _, name := range []string{"compute", "switch"} {
		for _, rate := range []float64{1000, 10000} {
			t.Run(fmt.Sprintf("%s/%gHz", name, rate), func(t *testing.T) {
				p := r.Start(t, script(t, "counted"), rubytest.Options{Args: []string{name}})
				other := r.Start(t, script(t, "counted"), rubytest.Options{Args: []string{name}})
				// The other process is stopped while a thread holds its GVL. ddtop therefore takes it for a busy
				// process and samples it at the full rate.
				other.Send(t, "0.1")
				other.Line(t)
				other.Signal(t, syscall.SIGSTOP)
				const none, beside, itself = 0, 1, 2
				watched := [3]int{beside: other.PID, itself: p.PID}
				measure := func(arm int) (perSecond, cpuPerOperation float64) {
					stop := func() {}
					if arm != none {
						stop = sampling(t, watched[arm], rate)
					}
					defer func() { stop() }()
					p.Send(t, stretch)
					var said struct {
						Done  int64
						NS    int64
						CPUNS int64 `json:"cpu_ns"`
					}
					p.JSON(t, &said)
					return float64(said.Done) / float64(said.NS), float64(said.CPUNS) / float64(said.Done)
				}
				measure(beside) // the first reads are slower, because ddtop reads every name once
				measure(itself)
				var slower, dearer [3][]float64 // the ratios beside/none, itself/none and itself/beside
				for i := range pairs {
					var speed, cost [3]float64
					for k := range 3 {
						arm := (i + k) % 3
						if i/3%2 == 1 {
							arm = (i + 2*k) % 3
						}
						speed[arm], cost[arm] = measure(arm)
					}
					for k, of := range [3][2]int{{beside, none}, {itself, none}, {itself, beside}} {
						slower[k] = append(slower[k], math.Log(speed[of[1]]/speed[of[0]]))
						dearer[k] = append(dearer[k], math.Log(cost[of[0]]/cost[of[1]]))
					}
				}
				rubytest.Report(t, "slower by %s, CPU per operation more by %s; while another process is watched by %s and %s, so that reading makes %s and %s (%s, load %s)",
					interval(slower[1]), interval(dearer[1]), interval(slower[0]), interval(dearer[0]), interval(slower[2]), interval(dearer[2]),
					r, loadAverage(t))
			})
		}
	}
}

// interval returns the mean change in percent, with its 95 % confidence interval. logs are the logarithms of the
// measured ratios.
func interval(logs []float64) string {
	var mean, square float64
	for _, x := range logs {
		mean += x / float64(len(logs))
	}
	for _, x := range logs {
		square += (x - mean) * (x - mean)
	}
	half := quantile95 * math.Sqrt(square/float64(len(logs)-1)/float64(len(logs)))
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", 100*math.Expm1(mean), 100*math.Expm1(mean-half), 100*math.Expm1(mean+half))
}

// sampling samples a process until stop is called. It returns once the first sample is taken.
func sampling(t *testing.T, pid int, rate float64) (stop func()) {
	t.Helper()
	s, err := live.Open(t.Context(), pid, live.Options{LockRate: rate})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun, ended := make(chan struct{}), make(chan error, 1)
	once := sync.OnceFunc(func() { close(begun) })
	go func() { ended <- s.Run(ctx, func(*sampler.Sample) { once() }) }()
	select {
	case <-begun:
	case err := <-ended:
		cancel()
		t.Fatal(err)
	}
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
