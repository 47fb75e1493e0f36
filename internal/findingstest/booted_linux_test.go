package findingstest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// forked waits until a program has a number of child processes (want), and returns their PIDs. A child counts only if
// the function ok returns true for its command line.
func forked(t *testing.T, p *program, want int, ok func(line string) bool) (pids []int) {
	t.Helper()
	for deadline := time.Now().Add(rubytest.Timeout); len(pids) != want; time.Sleep(time.Millisecond) {
		pids = nil
		for _, pid := range rubytest.Children(t, p.PID) {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err == nil && ok(string(line)) {
				pids = append(pids, pid)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("children %v, want %d", pids, want)
		}
	}
	return pids
}

// isWorker reports whether a command line belongs to a worker process of Puma. isAny accepts every command line.
func isWorker(line string) bool { return strings.HasPrefix(line, "puma: cluster worker") }

func isAny(string) bool { return true }

// TestWorkerInHook: a worker process of Puma hangs in a hook at its start. The finding names the worker's parent, and
// what the worker waits for.
func TestWorkerInHook(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p := start(t, r, "booted/hook")
		defer p.Stop(t)
		worker := forked(t, p, 1, isWorker)[0]
		want := raised{words: []string{fmt.Sprintf("Worker never booted: process %d forked it ", p.PID), "main has waited for ",
			"Puma::Configuration#run_hooks", ":5432"}}
		checkRaised(t, watch(t, worker, rulesWith(t, "never_booted.hook=2s"), raiseTime, says("never_booted", want.words), nil), "never_booted", want)
	})
}

// TestBootedWorkers: a worker process that has booted raises no finding never_booted, whatever it waits for.
func TestBootedWorkers(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p := start(t, r, "booted/workers")
		t.Cleanup(func() { p.Stop(t) }) // a cleanup and not a call at the end, because the subtests run in parallel
		for _, pid := range append(forked(t, p, 3, isAny), p.PID) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				s := watch(t, pid, rulesWith(t, "never_booted.hook=2s", "never_booted.fork=1s"), 6*time.Second, nil, nil)
				if f, ok := s.finding("never_booted"); ok {
					t.Errorf("raised: %s", f.Text)
				}
				if s.stat.Samples < 20 {
					rubytest.TooSeldom(t, "only %d samples", s.stat.Samples)
				}
			})
		}
	})
}
