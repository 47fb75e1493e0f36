package findingstest

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestFrozenByCgroup freezes a working process by its cgroup. ddtop must report that the process is frozen, and no
// other finding.
func TestFrozenByCgroup(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		for _, v2 := range []bool{true, false} {
			p := start(t, r, "quiet/mixed")
			f := rubytest.NewFreezer(t, p.PID, v2)
			before := lackedCPU(t, p.PID)
			s := watch(t, p.PID, nil, raiseTime, is("frozen"), func(_ *live.Source, n int) {
				if n == seenSamples {
					f.Freeze(t)
				}
			})
			checkRaised(t, s, "frozen", raised{words: []string{"Process is frozen", "its cgroup keeps all"}})
			s.findings = slices.DeleteFunc(s.findings, is("frozen"))
			checkQuiet(t, s, lackedCPU(t, p.PID)-before)
			// A ddtop that attaches after the freeze also reports it. It does not know when the freeze began, so it
			// says "for at least".
			s = watch(t, p.PID, nil, raiseTime, is("frozen"), nil)
			checkRaised(t, s, "frozen", raised{words: []string{"for at least"}})
			f.Thaw(t)
		}
	})
}

// TestFrozenEnds: when a stopped process continues, the finding that it is frozen ends within two seconds.
func TestFrozenEnds(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	p := start(t, rubytest.One(t), "raise/deadlock")
	stopped, seen := false, false
	var ended report.StatFinding
	var wentOn time.Time
	s := watch(t, p.PID, nil, raiseTime, func(f report.StatFinding) bool {
		switch {
		case f.ID == "deadlock" && !stopped:
			stopped = true
			p.Signal(t, syscall.SIGSTOP)
			awaitStopped(t, p.PID)
		case f.ID == "frozen" && !seen:
			seen = true
			wentOn = time.Now()
			p.Signal(t, syscall.SIGCONT)
		case f.ID == "frozen" && f.UntilNS != nil:
			ended = f
		}
		return ended.ID != ""
	}, nil)
	if ended.ID == "" || !strings.Contains(ended.Title, "was stopped") {
		t.Fatalf("stopped %v, seen %v, ended %+v: %v", stopped, seen, ended, s)
	}
	if took := time.Since(wentOn); took > 2*time.Second {
		rubytest.TooSeldom(t, "it ended after %v", took)
	}
}

// TestShortStops: a debugger stops a process for less than a second, as it does to take a stack. This raises no
// finding.
func TestShortStops(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	p := start(t, rubytest.One(t), "quiet/ordered_locks")
	var stoppedAt time.Time
	longest, halted := time.Duration(0), 0
	s := watch(t, p.PID, findings.NewRules(), 6*time.Second, nil, func(src *live.Source, n int) {
		if n%1000 == 500 {
			p.Signal(t, syscall.SIGSTOP)
			awaitStopped(t, p.PID)
			stoppedAt, halted = time.Now(), halted+1
		}
		if !stoppedAt.IsZero() && time.Since(stoppedAt) > 100*time.Millisecond {
			p.Signal(t, syscall.SIGCONT)
			longest, stoppedAt = max(longest, time.Since(stoppedAt)), time.Time{}
		}
	})
	if longest > 900*time.Millisecond {
		rubytest.TooSeldomNow(t, "the test had no CPU to continue the process for %v", longest)
	}
	if f, ok := s.finding("frozen"); ok || halted == 0 {
		t.Errorf("stopped %d times: %+v", halted, f)
	}
}
