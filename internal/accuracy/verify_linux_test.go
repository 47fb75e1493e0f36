//go:build verify

package accuracy

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/internal/rubytest/eventlog"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// window is how long each load is watched at each rate.
const window = 4 * time.Second

// maxStops limits how often a measurement is repeated because the whole machine stood still, such as a paused virtual
// machine. In this case ddtop takes no samples for a while and reports this. So there is nothing to compare, and the
// measurement does not count.
const maxStops = 3

var rates = []float64{100, 1000, 10000}

// loadAverage returns the load of the last minute from /proc/loadavg. It shows how busy the machine was.
func loadAverage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(b))[0]
}

// company returns a text that helps a reader to judge a printed figure: how well the sampling went, and how busy the
// machine was.
func company(t *testing.T, s report.Stat) string {
	t.Helper()
	return fmt.Sprintf("%5.0f Hz, late %d, torn %d of %d, load %s", s.Rate.Lock.Achieved, s.Late, s.Torn, s.Samples, loadAverage(t))
}

func row(s shares) string {
	return fmt.Sprintf("%5.2f %5.2f %5.2f %5.2f", s[groupRunning], s[groupWaiting], s[groupReleased], s[groupGC])
}

// TestSharesAgainstEvents prints, for every load and sampling rate, how far each thread's shares by ddtop are from its
// shares by Ruby's own events.
func TestSharesAgainstEvents(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		if !eventlog.ThreadEvents(r) {
			rubytest.Skip(t, "Ruby %s has no thread events", r.Version)
		}
		for _, l := range loads {
			for _, rate := range rates {
				t.Run(fmt.Sprintf("%s/%gHz", l.name, rate), func(t *testing.T) { againstEvents(t, r, l, rate) })
			}
		}
	})
}

func againstEvents(t *testing.T, r rubytest.Ruby, l load, rate float64) {
	o := live.Options{StackRate: min(rate, live.DefaultStackRate), LockRate: rate}
	for range maxStops {
		p := start(t, r, l.name, true)
		got := watchWith(t, p.PID, o, window, nil)
		log := p.truth(t)
		p.Stop(t)
		if got.NotSampled != 0 {
			t.Logf("the machine stood still for %v: once more", time.Duration(got.NotSampled))
			continue
		}
		mean, largest := errorsOf(t, p, got, log.Times(got.StartNS, got.EndNS))
		verdict := ""
		if rate == 1000 {
			verdict = fmt.Sprintf("; aim %g: ", l.aim)
			if missed := largest.above(l.aim); missed == "" {
				verdict += "met"
			} else {
				verdict += "missed by " + missed
			}
		}
		rubytest.Report(t, "points of running waiting released gc: mean %s, largest %s; %s; %s%s", row(mean), row(largest),
			waitsOf(got, log.Waits(got.StartNS, got.EndNS)), company(t, got), verdict)
		return
	}
	t.Errorf("the machine stood still in each of %d measurements", maxStops)
}

// above returns the names of the groups whose error is above a limit.
func (s shares) above(limit float64) string {
	var names []string
	for g, e := range s {
		if e > limit {
			names = append(names, groupNames[g])
		}
	}
	return strings.Join(names, ", ")
}

// counters are the kernel's counters of a thread's time on a CPU, and of its time ready to run without one. They are in
// ns since the thread's start (/proc/PID/task/TID/schedstat).
type counters struct{ cpu, delay int64 }

func countersOf(t *testing.T, pid int, tid int32) counters {
	t.Helper()
	var c counters
	path := fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid)
	b, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Sscan(string(b), &c.cpu, &c.delay)
	}
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return c
}

// monotonic returns the present time of CLOCK_MONOTONIC, in ns.
func monotonic(t *testing.T) int64 {
	t.Helper()
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		t.Fatal(err)
	}
	return now.Nano()
}

// TestComputingThreadsAgainstTheKernel compares ddtop's waiting with bounds from the kernel. It works on every release
// of Ruby, because it needs no log of Ruby's events.
//
// A thread that only computes is on a CPU, or waits for the GVL, or is ready to run but lacks a CPU. So its time
// without a CPU is an upper bound of its waiting. The same time minus the kernel's run delay is a lower bound. The test
// prints how far ddtop's waiting is outside of these bounds. On a busy machine ddtop delivers samples late, and the
// test reads the counters late. Both make the bounds wider.
func TestComputingThreadsAgainstTheKernel(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		for _, rate := range rates {
			t.Run(fmt.Sprintf("%gHz", rate), func(t *testing.T) {
				p := start(t, r, "cpu", false)
				before, after := make([]counters, len(p.workers)), make([]counters, len(p.workers))
				var first, early, late int64 // early and late: how long after their samples the counters were read, in ns
				got := watch(t, p.PID, rate, window, func(s *sampler.Sample, _ []gvl.ThreadState) {
					into, lag := after, &late
					switch {
					case first == 0:
						first, into, lag = s.TimeNS, before, &early
					case s.TimeNS-first < int64(window):
						return
					}
					for i, w := range p.workers {
						into[i] = countersOf(t, p.PID, w.TID)
					}
					*lag = monotonic(t) - s.TimeNS
				})
				outside, width := 0.0, 0.0
				for i, w := range p.workers {
					for _, th := range got.Threads {
						if th.TID == nil || *th.TID != w.TID {
							continue
						}
						most := got.DurationNS - (after[i].cpu - before[i].cpu)
						least := most - (after[i].delay - before[i].delay)
						most, least = most+late, least-early
						part := func(ns int64) float64 { return 100 * float64(ns) / float64(got.DurationNS) }
						outside = max(outside, part(least-th.NS.Waiting), part(th.NS.Waiting-most))
						width = max(width, part(most-least))
					}
				}
				rubytest.Report(t, "waiting is outside of what the kernel's counters allow (%.2f points wide) by at most %.2f points; %s",
					width, outside, company(t, got))
			})
		}
	})
}
