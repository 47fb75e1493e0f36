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

// TestOften: stays of a tenth of a second and longer add up over ten seconds, whichever fibers they are of. Short stays
// do not.
func TestOften(t *testing.T) {
	const ms = int64(1e6)
	for _, c := range []struct {
		name           string
		stayMS, loopMS int64
		stepMS         int64
		sumS           float64
		longestMS      int64
	}{
		{"half a second each", 500, 10, 50, 8.9, 500},
		{"the loop falls between two readings", 500, 0, 50, 9, 500},
		{"half of the time", 300, 300, 20, 4.7, 300},
		{"short turns", 60, 10, 20, 0, 0},
		{"few readings", 150, 10, 80, 0, 0},
	} {
		var s Stay
		turn := sampler.ThreadBits(0)
		now := ms
		read := func(bits sampler.ThreadBits, state gvl.State) {
			now += c.stepMS * ms
			th := sampler.Thread{Bits: bits, Quality: sampler.StackFresh}
			th.Kernel.CPUAtNS = now
			s.Add(&th, &gvl.ThreadState{State: state, AtNS: now, Stack: 7}, false)
		}
		for now < 30e9 {
			for at := int64(0); at < c.stayMS; at += c.stepMS {
				read(sampler.BitLoopFiber|turn, gvl.Running)
			}
			turn ^= sampler.BitFiberTurn
			for at := int64(0); at < c.loopMS; at += c.stepMS {
				read(0, gvl.IO)
			}
		}
		sum, longest, n, stack := s.Often()
		if d := float64(sum)/1e9 - c.sumS; d > .6 || d < -.6 || longest > c.longestMS*ms || (n > 0) != (c.sumS > 0) ||
			n > 0 && stack != 7 {
			t.Errorf("%s: %.1f s in %d stays, the longest %d ms, stack %d; want %.1f s", c.name, float64(sum)/1e9, n,
				longest/ms, stack, c.sumS)
		}
	}
}
