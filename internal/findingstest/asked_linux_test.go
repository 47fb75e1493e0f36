package findingstest

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestShortChildren: threads start short programs, one after the other, and wait for each. ddtop reports that the
// threads wait for child processes, although each of these ends soon.
func TestShortChildren(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p := start(t, r, "asked/children")
		s := watch(t, p.PID, nil, raiseTime, says("child_wait", []string{"4 threads wait for child processes", "of the busy time"}), nil)
		checkRaised(t, s, "child_wait", raised{
			pattern: `^4 threads wait for child processes, the longest for [≤≥]?[\d.]+ \S+ (\(pid \d+\) )?in Thumbnails#show .*` +
				`\(script\.rb:\d+\); \d+ % of the busy time$`,
			never: []string{"io_busy", "http_slow"},
		})
	})
}
