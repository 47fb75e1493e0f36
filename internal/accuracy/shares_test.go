//go:build verify

package accuracy

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest/eventlog"
	"github.com/ddtop/ddtop/report"
)

// truth ends the load and returns the events that Ruby logged, with which the test compares ddtop's figures.
func (p running) truth(t *testing.T) *eventlog.Log {
	t.Helper()
	p.Send(t, "write")
	p.Expect(t, "written")
	data, err := os.ReadFile(filepath.Join(p.HostDir, "events"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := eventlog.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// The test sorts ddtop's states into these groups, because Ruby's events distinguish no more than these.
const (
	groupRunning = iota
	groupWaiting
	groupReleased
	groupGC
	groups
)

var groupNames = [groups]string{"running", "waiting", "released", "gc"}

// shares are the shares of the window, in percent, that a thread spent in each group of states.
type shares [groups]float64

func sharesOf(running, waiting, released, gc, window int64) shares {
	part := func(ns int64) float64 { return 100 * float64(ns) / float64(window) }
	return shares{part(running), part(waiting), part(released), part(gc)}
}

// groupsOf sums up ddtop's times of a thread's states by group. The state unknown counts as released. A thread in this
// state does not hold the GVL, but ddtop does not know why.
func groupsOf(n report.StatStates, window int64) shares {
	return sharesOf(n.Running+n.Stalled, n.Waiting, n.Native+n.IO+n.Lock+n.Parked+n.Sleeping+n.Unknown, n.GC, window)
}

func truthOf(n eventlog.Times, window int64) shares {
	return sharesOf(n.Running, n.Waiting, n.Released, n.GC, window)
}

// errorsOf compares the shares of a load's threads with Ruby's log. It returns the mean and the largest absolute error
// in each group, in percentage points.
func errorsOf(t *testing.T, p running, got report.Stat, want map[uint32]eventlog.Times) (mean, largest shares) {
	t.Helper()
	byTID := make(map[int32]report.StatThread)
	for _, th := range got.Threads {
		if th.TID != nil {
			byTID[*th.TID] = th
		}
	}
	for _, w := range p.workers {
		th, seen := byTID[w.TID]
		events, logged := want[uint32(w.TID)]
		if !seen || !logged {
			t.Fatalf("%s (tid %d): seen by ddtop %v, logged by Ruby %v", w.Name, w.TID, seen, logged)
		}
		a, b := groupsOf(th.NS, got.DurationNS), truthOf(events, got.DurationNS)
		t.Logf("%-12s ddtop %6.2f  Ruby %6.2f  (running, waiting, released, gc)", w.Name, a, b)
		for g := range a {
			e := math.Abs(a[g] - b[g])
			mean[g] += e / float64(len(p.workers))
			largest[g] = max(largest[g], e)
		}
	}
	return mean, largest
}

// waitsOf returns a text that compares the waits by ddtop with Ruby's events: the sum of all waits, the longest wait,
// and the blame. Blame is the share of the waiting that each holder of the GVL causes. If no thread holds the GVL, the
// waiting counts for one additional, imaginary thread. The error of the blame is the largest difference of a thread's
// share, in points.
func waitsOf(got report.Stat, want eventlog.Waits) string {
	if want.TotalNS == 0 || got.Blame.TotalNS == 0 {
		return fmt.Sprintf("waiting %d ms, by events %d", got.Blame.TotalNS/1e6, want.TotalNS/1e6)
	}
	blamed := map[uint32]int64{0: got.Blame.NobodyNS}
	for _, c := range got.Blame.Threads {
		for _, th := range got.Threads {
			if th.ID == c.Thread && th.TID != nil {
				blamed[uint32(*th.TID)] = c.NS
			}
		}
	}
	for tid := range want.ByHolder {
		blamed[tid] += 0
	}
	worst := 0.0
	for tid, ns := range blamed {
		worst = max(worst, math.Abs(100*float64(ns)/float64(got.Blame.TotalNS)-100*float64(want.ByHolder[tid])/float64(want.TotalNS)))
	}
	return fmt.Sprintf("waiting %+.2f %%, blame off by %.2f points at most, longest wait %.1f ms of %.1f", 100*(float64(got.Blame.TotalNS)/float64(want.TotalNS)-1),
		worst, float64(got.GVL[0].Waits.MaxNS)/1e6, float64(want.LongestNS)/1e6)
}
