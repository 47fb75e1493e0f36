package findings

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/sampler"
)

// TestSpinsOnTheWay: a thread spins if samples find it in a call that only tries something, or at the line that makes
// this call. If a thread makes such a call only now and then, and works at other lines, it does not spin. It makes no
// difference whether the frame at the line is uncertain.
func TestSpinsOnTheWay(t *testing.T) {
	for _, c := range []struct {
		name  string
		asks  int // samples in the call that only tries, of ten
		line  int32
		doubt bool // the frame at the line is uncertain
		spins bool
	}{
		{"mostly in the attempt", 8, 11, false, true},
		{"mostly at its line", 2, 10, false, true},
		{"mostly at its line, uncertain", 2, 10, true, true},
		{"asks, and works at the next line", 2, 11, false, false},
		{"asks, and works at the next line, uncertain", 2, 11, true, false},
		{"hardly asks", 0, 10, false, false},
	} {
		s := newScene(t)
		frame := func(label string, line int32, c bool) sampler.FrameID {
			return s.dict.InternFrame(sampler.Frame{Path: "app.rb", Label: label, Line: line, C: c})
		}
		ask := s.dict.InternStackOf([]sampler.FrameID{frame("Thread.pass", 10, true), frame("Waiter#run", 10, false)})
		line := sampler.Frame{Path: "app.rb", Label: "Waiter#run", Line: c.line, Uncertain: c.doubt}
		loop := s.dict.InternStackOf([]sampler.FrameID{s.dict.InternFrame(line)})
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

// TestSleepersOnAFullMachine: some threads only sleep again and again. If all CPUs are busy, each of them waits for a
// CPU when it wakes up. The sum of these waits exceeds the time of one CPU, but the threads do not spin, so there must
// be no finding.
func TestSleepersOnAFullMachine(t *testing.T) {
	for _, c := range []struct {
		percent int64 // part of the time in which each thread is ready
		spins   bool
	}{{25, false}, {95, true}} {
		s := newScene(t)
		pause := s.stack("c:Kernel#sleep", "Poller#run")
		s.play(8*gvltest.Sec, func(i int) (sampler.ThreadID, []sampler.Thread) {
			owner := sampler.ThreadID(1 + i%6)
			var threads []sampler.Thread
			for id := range sampler.ThreadID(6) {
				x := gvltest.Asleep(id+1, sampler.Stopped, sampler.BlockSleep)
				if id+1 == owner {
					x = gvltest.Holder(owner)
				}
				x = s.at(x, pause)
				x.Kernel.CPUAtNS, x.Kernel.RunDelayNS = s.now, (s.now-gvltest.Base)*c.percent/100
				threads = append(threads, x)
			}
			return owner, threads
		})
		if got := slices.Contains(s.ids(), ruleSpins); got != c.spins {
			t.Errorf("ready for %d %%: %v", c.percent, s.f.Current())
		}
	}
}
