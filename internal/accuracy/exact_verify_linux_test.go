//go:build verify

package accuracy

import (
	"testing"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestExactAgainstEvents judges what TestExactTurns prints: of each load the shares are within 0.2 points in the mean, and 99.9 % of the
// waits of 50 µs and more have both ends within 20 µs of Ruby's.
//
// Ruby says READY before the thread is in the queue: a thread that loses its CPU in between differs by how long that takes, and both are right.
// (A timed sleep wakes the timer thread in between, which then often takes the CPU.) For how long the thread had no CPU before the wait the
// kernel counts, so such a wait counts where that is enough to tell the difference. RESUMED comes half a microsecond before the end of the
// wait, within the mutex: nothing is allowed there.
func TestExactAgainstEvents(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		if !r.AtLeast(3, 3) {
			rubytest.Skip(t, "Ruby tells of all turns from 3.3 on")
		}
		rubytest.NeedExact(t, r)
		for _, l := range loads {
			t.Run(l.name, func(t *testing.T) {
				c := exactLoad(t, r, l.name, window, false)
				rubytest.Report(t, "%v; load %s", c, loadAverage(t))
				if max(c.mean[0], c.mean[1], c.mean[2]) > 0.2 {
					t.Errorf("the shares are %.3f points off", c.mean)
				}
				if least := odds.AtLeast(c.of, 0.999); c.found+c.preempted < least {
					t.Errorf("%d and %d of %d waits matched, not %d", c.found, c.preempted, c.of, least)
				}
			})
		}
	})
}
