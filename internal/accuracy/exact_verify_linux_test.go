//go:build verify

package accuracy

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestExactAgainstEvents judges what TestExactTurns prints: shares within 0.2 points in the mean, and 99.9 % of the waits, for
// which there must be a thousand.
func TestExactAgainstEvents(t *testing.T) {
	rubytest.Each(t, func(t *testing.T, r rubytest.Ruby) {
		if !r.AtLeast(3, 3) {
			rubytest.Skip(t, "exact mode is for Ruby 3.3 and later")
		}
		for _, l := range loads {
			t.Run(l.name, func(t *testing.T) {
				c := exactLoad(t, r, l.name, window)
				verdict := "met"
				if max(c.mean[0], c.mean[1], c.mean[2]) > 0.2 || c.of >= 1000 && float64(c.found) < 0.999*float64(c.of) {
					verdict = "missed"
				}
				rubytest.Report(t, "%d turns; points off, running waiting released: %.3f, at most %.3f; %d of %d waits matched; load %s: %s", c.turns, c.mean,
					c.worst, c.found, c.of, loadAverage(t), verdict)
			})
		}
	})
}
