package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestBarrier: a barrier is a point where all ractors must stop. If a thread does not stop, and other ractors wait for
// it there, the finding names this thread. There is no finding in two cases. First, the thread's stack changes: the
// thread has stopped at one barrier and delays only the next one. Second, the thread has no CPU, so it cannot stop.
func TestBarrier(t *testing.T) {
	for _, c := range []struct {
		name        string
		asks, moves bool
		delay       bool
		stuck       bool
	}{
		{name: "asked for", asks: true, stuck: true},
		{name: "not asked for"},
		{name: "joins each", asks: true, moves: true},
		{name: "has no CPU", asks: true, delay: true},
	} {
		s := newScene(t)
		stacks := []sampler.StackID{s.stack("c:String#crypt", "Device#read"), s.stack("c:Kernel#sleep", "Device#read")}
		s.play(3*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			at := stacks[0]
			if c.moves {
				at = stacks[i/20%2]
			}
			x := s.at(gvltest.Holder(1), at)
			if c.asks {
				x.Bits |= sampler.BitBarrier
			}
			if c.delay {
				x.Kernel.RunDelayNS = s.now
			}
			return 1, []sampler.Thread{x}
		})
		if got := slices.Contains(s.ids(), ruleBarrier); got != c.stuck {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
		if c.stuck {
			s.names(s.one(ruleBarrier), "", "a ractor has stood still for", "thread 1 does not stop in ", "String#crypt")
		}
	}
}
