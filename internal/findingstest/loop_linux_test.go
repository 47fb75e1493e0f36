package findingstest

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// TestLoopBlocked: a fiber that computes keeps the other fibers of its event loop from running. ddtop must report this.
// In one program, the fiber computes for seconds. In another, it repeatedly computes for a part of a second.
func TestLoopBlocked(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	for program, want := range map[string]raised{
		"loop/compute": {words: []string{"reactor has run one fiber for", "in Report#build", "10 other fibers"}},
		"loop/often":   {words: []string{"reactor ran fibers for long", "in the last 10 s", "in Object#compute", "12 other fibers"}},
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				p := start(t, r, program)
				defer p.Stop(t)
				s := watch(t, p.PID, nil, raiseTime, says("loop_blocked", want.words), nil)
				checkRaised(t, s, "loop_blocked", want)
			})
		})
	}
}
