package findingstest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// quietTime is how long the tests watch a program without a fault. Rules about load report nothing in the first five
// seconds of a program, so quietTime is longer. It is also longer than the time for which a condition must be true
// before a rule raises its finding.
const quietTime = 10 * time.Second

// quietTimes has longer times for some programs, which could raise a wrong finding only later.
var quietTimes = map[string]time.Duration{
	"slow_boot": 8*time.Second + 12*time.Second, "sawtooth": 25 * time.Second, "warm_up": 25 * time.Second,
}

// quietShort are the programs without a fault that also run with -short. They are the busiest program, the program that
// looks most like a faulty one, and an idle server.
var quietShort = []string{"mixed", "ordered_locks", "idle_puma"}

// TestQuiet: programs without a fault raise nothing.
func TestQuiet(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	for _, name := range names(t, "quiet") {
		t.Run(name, func(t *testing.T) {
			if !slices.Contains(quietShort, name) {
				rubytest.Long(t)
			}
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				p := start(t, r, "quiet/"+name)
				before := lackedCPU(t, p.PID)
				s := watch(t, p.PID, rulesWith(t, "stuck_thread.unchanged=4s", "all_busy.for=3s", "queue_grows.time=4s"), max(quietTime, quietTimes[name]), nil, nil)
				checkQuiet(t, s, lackedCPU(t, p.PID)-before)
			})
		})
	}
}

// late are the findings that a busy machine can cause in a program without a fault. Such a finding is right, not an
// error of ddtop: threads for which other threads wait lack a CPU.
var late = []string{"queue_grows", "gvl_hog", "gvl_saturated", "lock_convoy", "pool_wait", "redis_slow", "db_slow", "http_slow", "gc_pressure", "all_busy", "io_busy"}

// lackNS is how long a program and its servers may lack a CPU, summed over their threads. If they lack it for longer,
// the findings in the list late are no error. It is the shortest wait that a rule about load reports (lock_convoy,
// docs/reference/findings.md).
const lackNS = 100 * time.Millisecond

// checkQuiet fails the test for each finding, unless a lack of CPU time can have caused it. lacked is how long the
// program and its servers lacked a CPU.
func checkQuiet(t *testing.T, s *seen, lacked time.Duration) {
	t.Helper()
	for _, f := range s.findings {
		switch {
		case f.ID == "cpu_starved":
		case lacked >= lackNS && slices.Contains(late, f.ID):
			t.Logf("without a CPU for %v: %s: %s", lacked, f.Title, f.Text)
		default:
			t.Errorf("%s: %s (without a CPU for %v)", f.Title, f.Text, lacked)
		}
	}
	if s.stat.Samples < 20 {
		rubytest.TooSeldom(t, "only %d samples", s.stat.Samples)
	}
}

// lackedCPU returns how long a program and its child processes were ready to run and had no CPU.
func lackedCPU(t *testing.T, pid int) time.Duration {
	t.Helper()
	sum := rubytest.RunDelay(t, pid)
	for _, child := range rubytest.Children(t, pid) {
		sum += rubytest.RunDelay(t, child)
	}
	return sum
}

// TestIdleServersRest: ddtop distinguishes threads that do I/O for their work from threads that wait for new work
// (rest). The threads of an idle Puma and an idle Sidekiq hardly ever count as working. Threads that wait for a
// database never count as resting.
func TestIdleServersRest(t *testing.T) {
	rubytest.Long(t)
	t.Parallel()
	for _, c := range []struct {
		program string
		rests   bool
		says    string // what at least one thread must wait for, in ddtop's words
	}{{"quiet/idle_puma", true, "accepts connections"}, {"quiet/idle_sidekiq", true, "waits for work"}, {"raise/db_slow", false, ""}} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				work, idle, words := restTime(t, start(t, r, c.program).PID)
				if c.says != "" && !words[c.says] {
					t.Errorf("no thread %s: %v", c.says, words)
				}
				if all := work + idle; all == 0 || c.rests && work > all/20 || !c.rests && idle != 0 {
					t.Errorf("I/O that is work: %v, that is rest: %v", work, idle)
				}
			})
		})
	}
}

// restTime samples a process for a second. work is how long its threads did I/O for their work, and idle how long they
// waited for new work in I/O. words describes what the threads at rest wait for.
func restTime(t *testing.T, pid int) (work, idle time.Duration, words map[string]bool) {
	t.Helper()
	words = make(map[string]bool)
	src, err := live.Open(t.Context(), pid, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	classifier, resting := gvl.NewClassifier(src.Process(), src.Dictionary()), findings.NewResting(src.Dictionary())
	ctx, cancel := context.WithTimeout(t.Context(), raiseTime)
	defer cancel()
	var first, last int64
	err = src.Run(ctx, func(s *sampler.Sample) {
		if first == 0 {
			first, last = s.TimeNS, s.TimeNS
		}
		d := time.Duration(s.TimeNS - last)
		last = s.TimeNS
		for _, st := range classifier.Classify(s) {
			switch what := resting.Idle(st.State, &st.Detail, st.Stack); {
			case st.State != gvl.IO:
			case what != "":
				idle += d
				words[what] = true
			default:
				work += d
			}
		}
		if last-first > time.Second.Nanoseconds() {
			cancel()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return work, idle, words
}

// TestPaused: a signal or a debugger stops a program, which keeps its GVL and its locks meanwhile. This must raise no
// finding except frozen. If no thread holds the GVL when the program is stopped, ddtop cannot distinguish the stop from
// a wait (docs/reference/findings.md). If two threads queue for a lock at this time, a finding about the lock is right.
// So in this case the test continues the program, and stops it again at another moment.
func TestPaused(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	for _, name := range []string{"raise/gvl_saturated", "quiet/ordered_locks"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rubytest.One(t), name)
			begin, stopped, before := time.Now(), false, lackedCPU(t, p.PID)
			s := watch(t, p.PID, nil, 6*time.Second, nil, func(*live.Source, int) {
				for !stopped && time.Since(begin) > time.Second && time.Since(begin) < rubytest.Timeout {
					p.Signal(t, syscall.SIGSTOP)
					awaitStopped(t, p.PID)
					if stopped = queueing(t, p.PID) < 2; !stopped {
						p.Signal(t, syscall.SIGCONT)
						time.Sleep(time.Millisecond) // time for the queue to change
					}
				}
			})
			lacked := lackedCPU(t, p.PID) - before
			p.Signal(t, syscall.SIGCONT)
			if !stopped {
				rubytest.TooSeldomNow(t, "it was never stopped")
			}
			if _, ok := s.finding("frozen"); !ok {
				rubytest.TooSeldom(t, "that it is stopped is not told")
			}
			told := func(f report.StatFinding) bool { return f.ID == "frozen" || f.ID == "gvl_saturated" }
			s.findings = slices.DeleteFunc(s.findings, told)
			checkQuiet(t, s, lacked)
		})
	}
}

// awaitStopped waits until the kernel reports a process as stopped. This can take a while, because each thread needs a
// CPU before it stops.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(rubytest.Timeout); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), ") T ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it was stopped, and is not: %s", text)
		}
	}
}

// queueing returns the number of threads that wait for a lock at this moment.
func queueing(t *testing.T, pid int) (n int) {
	t.Helper()
	src, err := live.Open(t.Context(), pid, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	s, err := src.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range gvl.NewClassifier(src.Process(), src.Dictionary()).Classify(s) {
		if st.State == gvl.Lock {
			n++
		}
	}
	return n
}

// TestBlindness: ddtop itself may take no samples for a while, for example because it has no CPU. It must not report
// this as a fault of the program.
func TestBlindness(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	for _, blind := range []time.Duration{40 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(blind.String(), func(t *testing.T) {
			t.Parallel()
			p := start(t, rubytest.One(t), "raise/gvl_saturated")
			before := lackedCPU(t, p.PID)
			s := watch(t, p.PID, rulesWith(t, "gvl_saturated=off"), 6*time.Second, nil, func(src *live.Source, n int) {
				if n%50 == 0 {
					resume := src.Park() // from now on ddtop takes no samples, as if it got no CPU
					time.Sleep(blind)
					resume()
				}
			})
			if s.gapNS < blind.Nanoseconds() {
				t.Errorf("the longest gap was %v", time.Duration(s.gapNS))
			}
			checkQuiet(t, s, lackedCPU(t, p.PID)-before)
		})
	}
}
