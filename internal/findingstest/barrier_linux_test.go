package findingstest

import (
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestBarriersThatComplete: a ractor can ask all other ractors to stop, and waits until they have stopped (a barrier).
// If barriers complete soon, there must be no finding barrier_stuck. The test has two such programs. In the first, a
// ractor is in a long call, but no other ractor waits for it. In the second, ractors wait for each other often, but
// each wait is short.
func TestBarriersThatComplete(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	for _, name := range []string{"calls", "collects"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				p := start(t, r, "barrier/"+name)
				defer p.Stop(t)
				s := watch(t, p.PID, nil, 6*time.Second, is("barrier_stuck"), nil)
				if f, ok := s.finding("barrier_stuck"); ok {
					t.Errorf("%s: %s", f.Title, f.Text)
				}
			})
		})
	}
}
