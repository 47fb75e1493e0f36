//go:build verify

package accuracy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// binary is the path of ddtop, built once.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "ddtop-cost-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "ddtop")
	if out, err := exec.Command("go", "build", "-o", path, "../..").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building ddtop: %w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	os.Exit(code)
}

// cpuOf returns the CPU time of each thread of a process in ns, to the ns.
func cpuOf(t *testing.T, pid int) map[int32]int64 {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[int32]int64)
	for _, e := range entries {
		tid, err := strconv.ParseInt(e.Name(), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		all[int32(tid)] = countersOf(t, pid, int32(tid)).cpu
	}
	return all
}

const (
	// settle is how long ddtop runs before its cost is measured: the first look reads every name.
	settle = 2 * time.Second
	// costWindow is how long it is measured.
	costWindow = 5 * time.Second
	// bareWindow is how long each bare loop runs, once before ddtop and once after it.
	bareWindow = time.Second
)

// TestCost prints what `ddtop stat` takes of a CPU, in all and its sampling thread alone, and what bare loops take that only
// sleep, and sleep and read, as often: figures of different machines, or of a machine with and without company, can be
// compared only as ratios to those.
func TestCost(t *testing.T) {
	ddtop, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	r := rubytest.One(t)
	for _, c := range []struct {
		name, load string
		args       []string
		threads    int
		rate       float64 // of ticks, in Hz
		aim        float64 // percent of a CPU; 0: none stated
	}{
		{"idle, 10 threads", "idle", nil, 0, 20, 0.5},
		{"10 threads", "threads", nil, 10, 1000, 4},
		{"100 threads", "threads", nil, 100, 1000, 8},
		{"500 threads", "threads", nil, 500, 1000, 0},
		{"10 threads, lock ticks alone", "threads", []string{"--rate", "1"}, 10, 1000, 3},
		{"500 threads, lock ticks alone", "threads", []string{"--rate", "1"}, 500, 1000, 0},
		{"10 threads, 10 kHz", "threads", []string{"--lock-rate", "10000"}, 10, 10000, 25},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := start(t, r, c.load, false, strconv.Itoa(c.threads))
			heap := heapOf(t, p.PID)
			var asleep, reading cost
			beside := func() {
				asleep.add(bare(t, c.rate, bareWindow, p.PID, 0))
				reading.add(bare(t, c.rate, bareWindow, p.PID, heap))
			}
			beside()
			cmd := exec.CommandContext(t.Context(), ddtop, append([]string{"stat", "--json", "-p", strconv.Itoa(p.PID), "-d", "60s"}, c.args...)...)
			var out bytes.Buffer
			cmd.Stdout = &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			end := sync.OnceValue(func() error {
				// Interrupted it says how many ticks it made.
				return errors.Join(cmd.Process.Signal(os.Interrupt), cmd.Wait())
			})
			defer end()
			pause(t, settle)
			from, before := time.Now(), cpuOf(t, cmd.Process.Pid)
			pause(t, costWindow)
			after, wall := cpuOf(t, cmd.Process.Pid), time.Since(from)
			var all, most int64
			for tid, ns := range after {
				all += ns - before[tid]
				most = max(most, ns-before[tid])
			}
			if err := end(); err != nil {
				t.Fatalf("%s: %v", cmd, err)
			}
			beside()
			var said struct {
				Rate struct{ Lock struct{ Achieved float64 } }
			}
			if err := json.Unmarshal(out.Bytes(), &said); err != nil {
				t.Fatalf("%s: %v", cmd, err)
			}
			whole, busiest := cost{cpu: all, wall: int64(wall), ticks: said.Rate.Lock.Achieved * wall.Seconds()}, cost{cpu: most, wall: int64(wall)}
			if c.load == "idle" {
				// It has slowed down before it is measured, and the rate it tells is that of the whole time.
				whole.ticks = c.rate * wall.Seconds()
			}
			aim := ""
			if c.aim != 0 {
				aim = fmt.Sprintf("; aim %g %%", c.aim)
			}
			rubytest.Report(t, "%.2f %% of a CPU, its busiest thread %.2f %%, %.0f µs a tick; a bare loop that sleeps as often %.2f %%, %.0f µs a tick, one that also reads %d pieces %.2f %%, %.0f µs; ddtop takes %.1f times as much a tick (%s, load %s)%s",
				whole.percent(), busiest.percent(), whole.perTick(), asleep.percent(), asleep.perTick(), barePieces, reading.percent(), reading.perTick(),
				whole.perTick()/reading.perTick(), r, loadAverage(t), aim)
		})
	}
}

// pause lets time pass in which something is measured.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	case <-time.After(d):
	}
}

// pairs is the number of rounds of stretches, and stretch their length in seconds.
const (
	pairs   = 12
	stretch = "0.8"
)

// quantile95 is Student's t for 95 % and pairs-1 = 11 degrees of freedom.
const quantile95 = 2.201

// TestSlowDown prints how much slower a program is while it is watched: rounds of three stretches, unwatched, with another
// process like it watched that stands still, and watched itself, in changing order; their ratios with a 95 % interval. What the
// second costs is the machine's share (ddtop takes CPU time, and half a core where two CPUs share one); what the third costs
// beyond it is that of the reading (cache lines fetched from the program's CPU, its mmap lock).
func TestSlowDown(t *testing.T) {
	r := rubytest.One(t)
	for _, name := range []string{"compute", "switch"} {
		for _, rate := range []float64{1000, 10000} {
			t.Run(fmt.Sprintf("%s/%gHz", name, rate), func(t *testing.T) {
				p := r.Start(t, script(t, "counted"), rubytest.Options{Args: []string{name}})
				other := r.Start(t, script(t, "counted"), rubytest.Options{Args: []string{name}})
				// Stopped at work, somebody holds its GVL: it is read as a busy process is, at the full rate.
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
				measure(beside) // reads every name once
				measure(itself)
				var slower, dearer [3][]float64 // beside to none, itself to none, itself to beside
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

// interval writes the mean of log ratios as a percentage with its 95 % interval.
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

// sampling samples a process until the returned function is called; when it returns itself, the first sample was taken.
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
