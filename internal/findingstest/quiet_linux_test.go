package findingstest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// quietTime is how long a program is watched in which nothing is wrong: past its first five seconds, in which rules on
// load are silent, and past the longest time that a condition has to hold, of those of seconds.
const quietTime = 10 * time.Second

// quietTimes are those of programs in which something happens that would be told of later.
var quietTimes = map[string]time.Duration{"slow_boot": 8*time.Second + 12*time.Second}

// TestQuiet: programs in which nothing is wrong raise nothing.
func TestQuiet(t *testing.T) {
	t.Parallel()
	for _, name := range names(t, "quiet") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				p := start(t, r, "quiet/"+name)
				before := serversDelay(t, p.PID)
				s := watch(t, p.PID, rulesWith(t, "stuck_thread.unchanged=4s", "all_busy.for=3s"), max(quietTime, quietTimes[name]), nil, nil)
				checkQuiet(t, s, serversDelay(t, p.PID)-before)
			})
		})
	}
}

// checkQuiet reports what was raised. A machine that is short of CPU is not the program's fault, and the truth; so is that its
// database or Redis was slow, where that process stood in the run queue for delay, as long as half of what would make it slow.
func checkQuiet(t *testing.T, s *seen, delay time.Duration) {
	t.Helper()
	slow := map[string]float64{"redis_slow": .5, "db_slow": 2} // threads that wait on average
	for _, f := range s.findings {
		if threads, ok := slow[f.ID]; ok && delay.Seconds() > threads/2*float64(min(s.stat.DurationNS, findingsWindow.Nanoseconds()))/1e9 {
			t.Logf("the servers lacked a CPU for %v: %s: %s", delay, f.Title, f.Text)
			continue
		}
		if f.ID != "cpu_starved" {
			t.Errorf("%s: %s (the servers lacked a CPU for %v)", f.Title, f.Text, delay)
		}
	}
	if s.stat.Samples < 20 {
		t.Errorf("only %d samples", s.stat.Samples)
	}
}

// findingsWindow is the time that rules look at.
const findingsWindow = 10 * time.Second

// serversDelay is how long the processes that a program has started were ready to run and had no CPU.
func serversDelay(t *testing.T, pid int) (sum time.Duration) {
	t.Helper()
	for _, child := range rubytest.Children(t, pid) {
		sum += rubytest.RunDelay(t, child)
	}
	return sum
}

// TestIdleServersRest: all threads of an idle Puma and an idle Sidekiq are parked, asleep or in I/O that is no work, and of a
// program whose threads wait for a database none is in such I/O.
func TestIdleServersRest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program string
		rests   bool
	}{{"quiet/idle_puma", true}, {"quiet/idle_sidekiq", true}, {"raise/db_slow", false}} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				work, idle := restTime(t, start(t, r, c.program).PID)
				if all := work + idle; all == 0 || c.rests && work > all/20 || !c.rests && idle != 0 {
					t.Errorf("I/O that is work: %v, that is rest: %v", work, idle)
				}
			})
		})
	}
}

// restTime samples a process for a second and returns how long its threads were in I/O that is work, and in I/O that is none.
func restTime(t *testing.T, pid int) (work, idle time.Duration) {
	t.Helper()
	src, err := live.Open(t.Context(), pid, live.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	classifier, resting := gvl.NewClassifier(src.Process(), src.Dictionary()), gvl.NewResting(src.Dictionary())
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
			switch {
			case st.State != gvl.IO:
			case resting.IdleIO(&st):
				idle += d
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
	return work, idle
}

// TestPaused: a program that is stopped (kill -STOP, a debugger) keeps its GVL and its locks, and nothing is wrong with
// it. One that is stopped while no thread holds the GVL is not told from one that waits (docs/findings.md): two threads that
// queue for a lock at that instant would be what they look like, so it is then stopped at another one.
func TestPaused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"raise/gvl_saturated", "quiet/ordered_locks"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rubytest.One(t), name)
			begin, stopped := time.Now(), false
			s := watch(t, p.PID, nil, 6*time.Second, nil, func(int) {
				for !stopped && time.Since(begin) > time.Second && time.Since(begin) < rubytest.Timeout {
					p.Signal(t, syscall.SIGSTOP)
					awaitStopped(t, p.PID)
					if stopped = queueing(t, p.PID) < 2; !stopped {
						p.Signal(t, syscall.SIGCONT)
						time.Sleep(time.Millisecond) // until the queue is another one
					}
				}
			})
			p.Signal(t, syscall.SIGCONT)
			if !stopped {
				t.Fatal("it was never stopped")
			}
			for _, f := range s.findings {
				if f.ID != "cpu_starved" && f.ID != "gvl_saturated" {
					t.Errorf("%s: %s", f.Title, f.Text)
				}
			}
		})
	}
}

// awaitStopped waits until the kernel says that a process is stopped: that takes each of its threads a CPU.
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

// queueing is the number of threads that wait for a lock now.
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

// TestBlindness: that ddtop itself can't sample for a while is no finding.
func TestBlindness(t *testing.T) {
	for _, blind := range []time.Duration{40 * time.Millisecond, 400 * time.Millisecond} {
		t.Run(blind.String(), func(t *testing.T) {
			t.Parallel()
			p := start(t, rubytest.One(t), "raise/gvl_saturated")
			s := watch(t, p.PID, rulesWith(t, "gvl_saturated=off"), 6*time.Second, nil, func(n int) {
				if n%50 == 0 {
					time.Sleep(blind) // as long as ddtop gets no CPU
				}
			})
			if s.gapNS < blind.Nanoseconds() {
				t.Errorf("the longest gap was %v", time.Duration(s.gapNS))
			}
			for _, f := range s.findings {
				if f.ID != "cpu_starved" {
					t.Errorf("%s: %s", f.Title, f.Text)
				}
			}
		})
	}
}
