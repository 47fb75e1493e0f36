package findingstest

import (
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestOwnPools: a pool of the program's own that is too small is named with its place, its size and those who are inside, whether the
// same threads have it all the time or each gets its turn.
func TestOwnPools(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	for name, pattern := range map[string]string{
		"queue": `^[78] of 10 web threads wait in Pool#with \(script\.rb:\d+\) for one of 2(, the longest for [≤≥]?[\d.]+ [a-zµ]+)?; ` +
			`inside: web-\d for ≤ [\d.]+ \S+ in .*Shop#`,
		"monitor": `^[5-7] of 9 import threads wait in Slots#reserve \(script\.rb:\d+\) for one of 3(, the longest for [≤≥]?[\d.]+ [a-zµ]+)?; ` +
			`inside: import-\d for ≤ `,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				p := start(t, r, "pool/"+name)
				s := watch(t, p.PID, nil, raiseTime, is("pool_wait"), nil)
				checkRaised(t, s, "pool_wait", raised{pattern: pattern, never: []string{"io_busy", "deadlock"}})
			})
		})
	}
}

// TestPoolBySwitches: a pool is found too while the process is followed by its thread switches, of which some samples have few stacks.
func TestPoolBySwitches(t *testing.T) {
	rubytest.OftenEnough(t)
	if err := live.CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	t.Parallel()
	p := start(t, rubytest.One(t), "pool/monitor")
	followed := make(chan error, 1)
	s := watch(t, p.PID, nil, raiseTime, is("pool_wait"), func(src *live.Source, n int) {
		if n == 1 {
			go func() { followed <- src.Switches(t.Context()) }()
		}
	})
	if err := <-followed; err != nil {
		t.Fatal(err)
	}
	checkRaised(t, s, "pool_wait", raised{pattern: `^[5-7] of 9 import threads wait in Slots#reserve`, never: []string{"io_busy", "deadlock"}})
}
