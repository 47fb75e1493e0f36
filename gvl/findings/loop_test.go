package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestLoopBlocked: there is a finding if a fiber blocks the event loop of its thread while other fibers wait. There is
// no finding if this fiber itself runs the event loop.
func TestLoopBlocked(t *testing.T) {
	for _, c := range []struct {
		name    string
		fibers  []sampler.Fiber
		loads   bool
		turns   bool
		call    string
		blocked bool
	}{
		{name: "two wait", fibers: []sampler.Fiber{{Thread: 1}, {Thread: 1}, {Thread: 2}}, blocked: true},
		{name: "no other fiber"},
		{name: "fibers of another thread", fibers: []sampler.Fiber{{Thread: 2}}},
		{name: "not yet resumed", fibers: []sampler.Fiber{{Thread: 1, Created: true}}},
		{name: "each has its turn", fibers: []sampler.Fiber{{Thread: 1}}, turns: true},
		{name: "loads code", fibers: []sampler.Fiber{{Thread: 1}}, loads: true},
		{name: "blocks in a call", fibers: []sampler.Fiber{{Thread: 1}, {Thread: 1}}, call: "flock", blocked: true},
		{name: "a loop in a fiber", fibers: []sampler.Fiber{{Thread: 1}}, call: "epoll_wait"},
	} {
		s := newScene(t)
		s.fibers = &sampler.Fibers{List: c.fibers}
		stack := s.stack("Report#build")
		if c.loads {
			stack = s.stack("Report#build", "c:Kernel#require")
		}
		s.play(3*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			x, owner := s.at(gvltest.Holder(1), stack), sampler.ThreadID(1)
			if c.call != "" {
				x, owner = s.at(gvltest.Answered(gvltest.Released(1), s.now, c.call, 5, 0), stack), 0
			}
			x.Bits |= sampler.BitLoopFiber
			if c.turns && i/20%2 == 0 {
				x.Bits |= sampler.BitFiberTurn
			}
			x.Kernel.CPUAtNS = s.now
			return owner, []sampler.Thread{x}
		})
		if got := slices.Contains(s.ids(), ruleLoopBlocked); got != c.blocked {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
		if c.blocked {
			s.names(s.one(ruleLoopBlocked), "", "has run one fiber for", "in Report#build",
				"2 other fibers of the thread cannot run")
		}
	}
}
