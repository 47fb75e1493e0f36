package accuracy

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// TestStatesSumUpAndNobodySharesTheGVL checks rules that hold under every load, however busy the machine is. The times
// of a thread's states sum up to the window, to the nanosecond. Two threads of a ractor never hold its GVL at once. A
// thread in the queue neither holds the GVL nor counts as released.
func TestStatesSumUpAndNobodySharesTheGVL(t *testing.T) {
	rubytest.EachVersion(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel() // noise cannot break the checks
		for _, l := range loads {
			p := start(t, r, l.name, false)
			samples, busy := 0, 0
			var got report.Stat
			// On a busy machine, ddtop or the program may get no CPU during a short window. Then there is nothing to
			// check, and the test measures again with a longer window.
			for d := 400 * time.Millisecond; d < 30*time.Second && (samples < 20 || busy == 0); d *= 4 {
				samples, busy = 0, 0
				got = watch(t, p.PID, 1000, d, func(s *sampler.Sample, states []gvl.ThreadState) {
					samples++
					holders := make(map[sampler.RactorID]sampler.ThreadID)
					for i, st := range states {
						if !st.State.Held() {
							if s.Threads[i].Bits&sampler.BitQueued != 0 && st.State != gvl.Waiting {
								t.Errorf("%s: queued thread %d is %v", l.name, st.Thread, st.State)
							}
							continue
						}
						busy++
						if other, held := holders[st.Ractor]; held {
							t.Errorf("%s: threads %d and %d both hold the GVL of ractor %d", l.name, other, st.Thread, st.Ractor)
						}
						holders[st.Ractor] = st.Thread
					}
				})
			}
			if samples < 20 || busy == 0 {
				t.Errorf("%s: %d samples in which %d threads held the GVL", l.name, samples, busy)
			}
			if len(got.Threads) <= len(p.workers) {
				t.Errorf("%s: %d threads, the load has %d and main", l.name, len(got.Threads), len(p.workers))
			}
			for _, th := range got.Threads {
				if sum := th.NS.Sum(); sum != got.DurationNS {
					t.Errorf("%s: the states of thread %d sum to %d ns of a window of %d", l.name, th.ID, sum, got.DurationNS)
				}
			}
			p.Stop(t)
		}
	})
}
