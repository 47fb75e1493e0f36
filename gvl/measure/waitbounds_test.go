package measure

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// measureWorld samples the world w at a rate for forNS. The threads' counters are read in every counters-th sample, or
// never if counters is zero. It returns the report of a thread, and the true lengths of its waits, of which the last is
// in progress.
func measureWorld(w *gvltest.GVLWorld, rate, forNS int64, counters int, id sampler.ThreadID) (report.StatThread, []int64) {
	p := gvltest.ProcOf(sampler.EraSched)
	p.LockRate, p.StackRate = float64(rate), float64(rate)
	m := New(p, sampler.NewDictionary(), nil)
	each, tick := int64(1e9)/rate, 0
	for w.Now < gvltest.Base+forNS {
		// Ticks come at irregular intervals, as in ddtop (TestClockHasNoPeriod).
		w.Until(w.Now + each/2 + int64(tick*7919%1000)*each/1000)
		m.Feed(w.Sample(counters > 0 && tick%counters == 0))
		tick++
	}
	waits := slices.Clone(w.Waits[id-1])
	if w.Owner != id {
		waits = append(waits, w.Now-w.Since[id-1])
	}
	slices.Sort(waits)
	st := m.Stat(0)
	i := slices.IndexFunc(st.Threads, func(t report.StatThread) bool { return t.ID == id })
	return st.Threads[i], waits
}

// judgeWaits compares the reported lengths with the true lengths in truth, which ascend. A reported length may be wrong
// by 3 %, the width of a Histogram's bucket. If it has no sign ("≤" or "≥"), it may be wrong by another 6 %.
func judgeWaits(t *testing.T, w *report.StatWaits, truth []int64) {
	t.Helper()
	longest := truth[len(truth)-1]
	told := []gvl.Bounded{w.P50(), w.P90(), w.P99(), w.Max()}
	for i := 1; i < len(told); i++ {
		if told[i].NS < told[i-1].NS {
			t.Errorf("the lengths do not grow: %v", told)
		}
	}
	switch f := w.Max(); {
	case f.Bound == gvl.AtMost && f.NS < longest*97/100, f.Bound == gvl.AtLeast && f.NS > longest*103/100,
		f.Bound == gvl.Exactly && (f.NS < longest*97/100 || f.NS > longest*110/100):
		t.Errorf("max %s, in truth %d", f.Prose(), longest)
	}
}

// TestWaitsAreNotMerged: a thread holds the GVL for only 20 µs at a time, and other threads compute in between. So
// nearly every sample finds this thread waiting. Its many waits must not count as one long wait.
func TestWaitsAreNotMerged(t *testing.T) {
	for _, c := range []struct {
		name     string
		turns    []int64
		rate     int64
		counters int
		// steps is by how much the reported longest wait may exceed the true one. The unit is the longer of two
		// intervals: between samples, or between readings of the counters.
		steps int64
	}{
		{"beside three at 1,000 Hz", []int64{100 * gvltest.MS, 100 * gvltest.MS, 100 * gvltest.MS, 20_000}, 1000, 10, 4},
		{"beside three at 100 Hz", []int64{100 * gvltest.MS, 100 * gvltest.MS, 100 * gvltest.MS, 20_000}, 100, 1, 4},
		{"beside three at 30 Hz", []int64{100 * gvltest.MS, 100 * gvltest.MS, 100 * gvltest.MS, 20_000}, 30, 1, 4},
		{"beside three, by the queue alone", []int64{100 * gvltest.MS, 100 * gvltest.MS, 100 * gvltest.MS, 20_000}, 1000, 0, 4},
		{"beside one at 1,000 Hz", []int64{183 * gvltest.MS, 20_000}, 1000, 10, 24},
		{"beside one at 30 Hz", []int64{183 * gvltest.MS, 20_000}, 30, 1, 4},
		{"beside seven", []int64{50 * gvltest.MS, 50 * gvltest.MS, 50 * gvltest.MS, 50 * gvltest.MS, 50 * gvltest.MS, 50 * gvltest.MS, 50 * gvltest.MS, 20_000}, 30, 1, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := sampler.ThreadID(len(c.turns))
			th, truth := measureWorld(gvltest.NewGVLWorld(c.turns...), c.rate, 6*gvltest.Sec, c.counters, id)
			judgeWaits(t, &th.Waits, truth)
			longest := truth[len(truth)-1]
			if most := longest + c.steps*2e9/c.rate; th.Waits.MaxNS > most {
				t.Errorf("max %s, in truth %d: more than %d are two waits", th.Waits.Max().Prose(), longest, most)
			}
			if n := int64(len(truth)); th.Waits.Count < n*9/10-2 || th.Waits.Count > n {
				t.Errorf("%d waits, in truth %d", th.Waits.Count, n)
			}
		})
	}
}

// TestWaitsWithoutEvidence: if neither the queue nor the counters show where one wait ends and the next begins, several
// waits look like one. The length is then shown as an upper bound.
func TestWaitsWithoutEvidence(t *testing.T) {
	th, truth := measureWorld(gvltest.NewGVLWorld(183*gvltest.MS, 20_000), 30, 6*gvltest.Sec, 0, 2)
	judgeWaits(t, &th.Waits, truth)
	if f := th.Waits.Max(); f.Bound != gvl.AtMost {
		t.Errorf("max %s, in truth %d", f.Prose(), truth[len(truth)-1])
	}
}

// TestLongWaitIsOne: if it is proven that a thread has not run for seconds, it is in a single wait. The length of this
// wait is shown as a plain number, not as an upper bound.
func TestLongWaitIsOne(t *testing.T) {
	for _, rate := range []int64{30, 1000} {
		w := gvltest.NewGVLWorld(4*gvltest.Sec, 100*gvltest.MS)
		th, truth := measureWorld(w, rate, 6*gvltest.Sec, max(int(rate/100), 1), 2)
		judgeWaits(t, &th.Waits, truth)
		if f := th.Waits.Max(); f.Bound == gvl.AtMost || f.NS < 39*gvltest.Sec/10 || f.NS > 41*gvltest.Sec/10 {
			t.Errorf("at %d Hz: max %s, in truth %d", rate, f.Prose(), truth[len(truth)-1])
		}
	}
}
