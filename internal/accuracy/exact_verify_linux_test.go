//go:build verify

package accuracy

import (
	"testing"

	"github.com/ddtop/ddtop/internal/odds"
	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestExactAgainstEvents judges how far exact mode is from Ruby's own events, which TestExactTurns only prints. Under
// each load, a thread's shares of the time are off by at most 0.2 points in the mean. Of the waits of 50 µs and more,
// 99.9 % have both ends within 20 µs of Ruby's.
//
// Ruby logs READY before the thread is in the queue for the GVL. If the thread loses its CPU in between, Ruby and exact
// mode report different times, and both are right. This is common after a timed sleep: Ruby's timer thread wakes up in
// between, and often gets the CPU. The kernel counts how long the thread had no CPU before the wait. A wait also
// matches if this time explains the difference.
//
// Ruby logs RESUMED half a microsecond before the wait ends, while it holds the mutex of the queue. So at the end of a
// wait, the test allows no time without a CPU.
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
