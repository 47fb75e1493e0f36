package findingstest

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// spinning has, for each program of testdata/spin, the words that the finding must contain.
var spinning = map[string][]string{
	"pass":  {"waiter has been at one place", "in Waiter#run", "of a CPU"},
	"write": {"writer has been at one place", "in Writer#", "of a CPU"},
	"child": {"reaper has been at one place", "of a CPU"},
}

// TestSpinning: a thread tries the same thing again and again without success, and uses CPU time for it. ddtop reports
// that the thread spins, whatever it tries.
func TestSpinning(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	for name, words := range spinning {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, r rubytest.Ruby) {
				p := start(t, r, "spin/"+name)
				defer p.Stop(t)
				s := watch(t, p.PID, nil, raiseTime, says(ruleSpinning, words), nil)
				checkRaised(t, s, ruleSpinning, raised{words: words})
			})
		})
	}
}

const ruleSpinning = "spinning"
