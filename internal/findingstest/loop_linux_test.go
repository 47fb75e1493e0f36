package findingstest

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestLoopBlocked: a fiber that computes keeps the other fibers of its event loop from running.
func TestLoopBlocked(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	each(t, func(t *testing.T, r rubytest.Ruby) {
		p := start(t, r, "loop/compute")
		defer p.Stop(t)
		want := raised{words: []string{"reactor has run one fiber for", "in Report#build", "10 other fibers"}}
		s := watch(t, p.PID, nil, raiseTime, says("loop_blocked", want.words), nil)
		checkRaised(t, s, "loop_blocked", want)
	})
}
