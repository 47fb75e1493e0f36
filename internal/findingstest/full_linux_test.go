//go:build verify && linux

package findingstest

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler/live"
)

// usual are ddtop's default options.
var usual = live.Options{Overhead: 0.03, OverheadMost: 0.06}

// ways are the sources by which ddtop can follow threads. With each of them, ddtop must report the same findings. The
// test skips a source that this ddtop or this machine does not have.
var ways = []live.From{live.FromPolling, "moved", live.FromSwitches}

// troubles are the programs of testdata/raise whose findings ddtop must raise even on a busy machine.
var troubles = []string{"cpu_starved", "gvl_saturated", "db_slow", "lock_convoy", "gc_pressure"}

// lackedShare is a share of a process's time: half of the threshold of cpu_starved. If a process lacks a CPU for at
// least this share, cpu_starved may be its first finding.
const lackedShare = .05

// TestRaisedAtTheDefaults: with ddtop's default CPU budget, the first finding must be the fault of the program. This
// must hold while other work uses all CPUs of the machine, or half of them, and with each source. The thirty programs
// take five minutes, so CI does not run this test.
func TestRaisedAtTheDefaults(t *testing.T) {
	rubytest.OftenEnough(t)
	rubies := chosen(t)
	r := rubies[len(rubies)-1]
	for _, full := range []struct {
		name string
		cpus int
	}{{"full", runtime.NumCPU()}, {"half", (runtime.NumCPU() + 1) / 2}} {
		t.Run(full.name, func(t *testing.T) {
			fill(t, full.cpus)
			for _, from := range ways {
				if _, err := live.ParseFrom(string(from)); err != nil {
					continue
				}
				for _, id := range troubles {
					t.Run(fmt.Sprintf("%s/%s", from, id), func(t *testing.T) {
						if from == live.FromSwitches {
							if err := live.CheckSwitches(); err != nil {
								rubytest.Skip(t, "%v", err)
							}
						}
						leads(t, load(t, r, "raise/"+id), id, from)
					})
				}
			}
		})
	}
}

// fill keeps a number of CPUs busy until the test ends. Its processes have the lowest priority, so the kernel prefers
// all other work.
func fill(t *testing.T, cpus int) {
	t.Helper()
	for range cpus {
		cmd := exec.Command("nice", "-n", "19", "sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // fails only if the process has ended by itself
			_ = cmd.Wait()         // the error says that the process was killed
		})
	}
}

// leads checks that ddtop reports the finding id for a program, before all other findings.
func leads(t *testing.T, p *program, id string, from live.From) {
	t.Helper()
	defer p.Stop(t)
	p.begin(t)
	o := usual
	o.From = from
	lacked, began := rubytest.RunDelay(t, p.PID), time.Now()
	sent := false
	s := watchBy(t, p.PID, o, nil, raiseTime, is(id), func(_ *live.Source, _ int) {
		if !sent && time.Since(began) > time.Second {
			sent = true
			p.Send(t, "seen")
		}
	})
	share := float64(rubytest.RunDelay(t, p.PID)-lacked) / float64(time.Since(began))
	if _, ok := s.finding(id); !ok {
		rubytest.TooSeldomNow(t, "not raised in %v; seen: %v\nlacks %+v", raiseTime, s, s.stat.Quality.Lacks)
	}
	told := func(list []report.StatFinding) (out []string) {
		for _, f := range list {
			out = append(out, f.ID)
		}
		return out
	}(s.findings)
	rubytest.Report(t, "%.1f s: %s; %.0f samples a second, stacks %.1f; without a CPU %.0f %% of the time", float64(s.atNS[id])/1e9, strings.Join(told, ", "),
		s.stat.Rate.Lock.Achieved, s.stat.Rate.Stack.Achieved, 100*share)
	// If the program lacks a CPU, this is worse than its own fault. So cpu_starved may be the first finding.
	if first := s.findings[0].ID; first != id && !(first == "cpu_starved" && share >= lackedShare) {
		t.Errorf("%s leads: %v", first, s)
	}
	if strings.Contains(s.findings[0].Next, "above") {
		t.Errorf("the first finding points at one above: %s", s.findings[0].Next)
	}
}
