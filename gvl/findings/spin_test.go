package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestSpinsOnTheWay: a thread spins if it is in its attempt or at the line that calls it. A thread that asks now and
// then, and works at other lines, does not.
func TestSpinsOnTheWay(t *testing.T) {
	for _, c := range []struct {
		name  string
		asks  int // of ten samples
		line  int32
		spins bool
	}{
		{"mostly in the attempt", 8, 11, true},
		{"mostly at its line", 2, 10, true},
		{"asks, and works at the next line", 2, 11, false},
		{"hardly asks", 0, 10, false},
	} {
		s := newScene(t)
		frame := func(label string, line int32, c bool) sampler.FrameID {
			return s.dict.InternFrame(sampler.Frame{Path: "app.rb", Label: label, Line: line, C: c})
		}
		ask := s.dict.InternStackOf([]sampler.FrameID{frame("Thread.pass", 10, true), frame("Waiter#run", 10, false)})
		loop := s.dict.InternStackOf([]sampler.FrameID{frame("Waiter#run", c.line, false)})
		s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			at := loop
			if i%10 < c.asks || i == 1 {
				at = ask
			}
			x := s.at(gvltest.Holder(1), at)
			x.Kernel.CPUAtNS, x.Kernel.CPUNS = s.now, s.now-gvltest.Base
			return 1, []sampler.Thread{x}
		})
		if got := slices.Contains(s.ids(), ruleSpins); got != c.spins {
			t.Errorf("%s: %v", c.name, s.f.Current())
		}
	}
}
