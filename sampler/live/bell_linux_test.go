package live

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// TestIdleProcessRings: the clock of an idle process learns of most moves of a thread within 20 ms. Its ticks alone,
// which are 125 ms apart and more, would learn of a sixth.
func TestIdleProcessRings(t *testing.T) {
	if err := CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	const tries, enough, soonNS, idleForNS = 7, 4, 20_000_000, 200_000_000
	p := rubytest.One(t).Start(t, `puts 1; $stdout.flush; while $stdin.gets; end`, rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{From: FromSwitches})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var slow atomic.Bool
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.Run(ctx, func(x *sampler.Sample) {
			if x.Slow && x.Changes.Known() {
				slow.Store(true)
			}
		})
	}()
	defer func() { stop(); <-done }()
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(rubytest.Timeout); !is(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not within %v", what, rubytest.Timeout)
			}
		}
	}
	until("idle", slow.Load)
	moved := &s.switches.now.Load().moves.newest
	soon := 0
	for range tries {
		before := moved.Load()
		until("idle again", func() bool { return pace.Monotonic()-before > idleForNS })
		p.Send(t, "x")
		until("a move", func() bool { return moved.Load() > before })
		late := pace.Monotonic() - moved.Load()
		t.Logf("%v late", time.Duration(late))
		if late < soonNS {
			soon++
		}
	}
	if soon < enough {
		t.Errorf("%d of %d moves were known within %v", soon, tries, time.Duration(soonNS))
	}
}
