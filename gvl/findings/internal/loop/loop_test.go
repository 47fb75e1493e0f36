package loop

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestStay: a stay counts from the first reading of a fiber. It ends with each turn of the event loop, and leaves out
// what the thread waited for.
func TestStay(t *testing.T) {
	const ms = int64(1e6)
	const in = sampler.BitLoopFiber
	type step struct {
		bits    sampler.ThreadBits
		state   gvl.State
		delayMS int64 // without a CPU, in all
		stepMS  int64
		times   int
	}
	for _, c := range []struct {
		name  string
		steps []step
		ms    int64
	}{
		{"computes", []step{{in, gvl.Running, 0, 10, 101}}, 1000},
		{"blocks", []step{{in, gvl.IO, 0, 10, 101}}, 1000},
		{"another fiber", []step{{in, gvl.Running, 0, 10, 50}, {in | sampler.BitFiberTurn, gvl.Running, 0, 10, 21}}, 200},
		{"its loop", []step{{in, gvl.Running, 0, 10, 50}, {0, gvl.IO, 0, 10, 1}}, 0},
		{"waits for the GVL", []step{{in, gvl.Running, 0, 10, 21}, {in, gvl.Waiting, 0, 10, 80}}, 200},
		{"lacks a CPU", []step{{in, gvl.Running, 0, 10, 50}, {in, gvl.Running, 900, 10, 51}}, 100},
		{"too few readings", []step{{in, gvl.Running, 0, 200, 9}}, 0},
		{"readings too far apart", []step{{in, gvl.Running, 0, 300, 20}}, 0},
	} {
		var s Stay
		now := ms
		for _, x := range c.steps {
			for range x.times {
				now += x.stepMS * ms
				th := sampler.Thread{Bits: x.bits, Quality: sampler.StackFresh}
				th.Kernel.CPUAtNS, th.Kernel.RunDelayNS = now, x.delayMS*ms
				s.Add(&th, &gvl.ThreadState{State: x.state, AtNS: now}, false)
			}
		}
		if got := s.NS() / ms; got != c.ms {
			t.Errorf("%s: %d ms, want %d", c.name, got, c.ms)
		}
	}
}
