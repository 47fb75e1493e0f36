package findingstest

import (
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestOwnPools: a program has a pool in its own code, not in a known library, and the pool is too small. The finding
// names the pool's place in the code, its size, and the threads that hold one of its objects. In one program, the same
// threads hold them all the time. In another, threads take turns.
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
				// When ddtop first raises the finding, it may not have seen any thread inside the pool. So the test
				// waits until the finding's text names such a thread.
				const inside = "; inside: "
				s := watch(t, p.PID, nil, raiseTime, says("pool_wait", []string{inside}), nil)
				if f, ok := s.finding("pool_wait"); ok && !strings.Contains(f.Text, inside) {
					rubytest.TooSeldomNow(t, "no thread was seen inside: %s", f.Text)
				}
				checkRaised(t, s, "pool_wait", raised{pattern: pattern, never: []string{"io_busy", "deadlock"}})
			})
		})
	}
}

// TestPoolBySwitches: while ddtop follows thread switches, it also finds a pool that is too small. It must do so
// although some samples then have few stacks.
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

// TestPoolCycles: all threads that hold a pool's connections wait for the same pool. ddtop must report a cycle. A
// holder waits for a second connection itself, or for another thread that waits for its first connection. The finding
// says how large the pool must be. One of the pools is from Active Record, which keeps a list of the holders.
func TestPoolCycles(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	for name, pattern := range map[string]string{
		"cycle_nested": `^5 threads wait in Pool#with \(script\.rb:\d+\), and all 2 that it has are held by threads that wait for the same pool: ` +
			`web-\d waits for another one in Shop#audit.*, web-\d waits for another one in .*; it needs at least 6$`,
		"cycle_joined": `^3 threads wait in Slots#with \(script\.rb:\d+\), and all 3 that it has are held by threads that wait for the same pool: ` +
			`web-\d waits for part-\d in .*Report#build.*, web-\d waits for part-\d in .*, 1 more; it needs at least 4$`,
		"cycle_leased": `^4 threads wait for a connection of Active Record in Shop#(order|report) → .*, and all 2 that it has are held by threads that wait ` +
			`for the same pool: web-\d waits for part-\d in .*Shop#report.*, web-\d waits for part-\d in .*; it needs at least 5$`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				p := start(t, r, "pool/"+name)
				defer p.Stop(t)
				s := watch(t, p.PID, nil, raiseTime, says("pool_wait", []string{"Cycle through a pool"}), nil)
				checkRaised(t, s, "pool_wait", raised{words: []string{"Cycle through a pool: "}, pattern: pattern})
			})
		})
	}
}

// TestPoolsThatGoOn: two kinds of programs raise no finding about a cycle of a pool. In the first kind, holders of
// connections wait for threads that do not need the pool. In the second kind, a holder waits for a further connection,
// and one is free or becomes free.
func TestPoolsThatGoOn(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	for _, name := range []string{"joins", "second", "leased_joins", "leased_one"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, r rubytest.Ruby) {
				t.Parallel()
				p := start(t, r, "pool/"+name)
				defer p.Stop(t)
				cycle := says("pool_wait", []string{"Cycle through a pool"})
				s := watch(t, p.PID, nil, quietTime, cycle, nil)
				for _, f := range s.findings {
					if cycle(f) {
						t.Errorf("%s: %s", f.Title, f.Text)
					}
				}
			})
		})
	}
}
