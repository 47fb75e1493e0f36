package loop

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestStay: a stay is a period in which a thread runs one fiber. It begins with the first reading of this fiber, and
// ends when the event loop runs. Its length excludes time in which the thread waited for the GVL or a CPU.
func TestStay(t *testing.T) {
	const ms = int64(1e6)
	const in = sampler.BitLoopFiber
	type step struct {
		bits    sampler.ThreadBits
		state   gvl.State
		delayMS int64 // all time without a CPU until now
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

// TestLong: Long counts the long stays (periods with one fiber) from a given time on, including the stay in progress.
// It leaves out short stays.
func TestLong(t *testing.T) {
	const ms = int64(1e6)
	for _, c := range []struct {
		name          string
		eachMS, times int
		n             int
		ms            int64
		longestMS     int64
	}{
		{"400 ms each", 400, 10, 5, 1950, 390},
		{"100 ms each", 100, 40, 0, 0, 0},
	} {
		var s Stay
		now, bits := int64(0), sampler.BitLoopFiber
		for range c.times {
			bits ^= sampler.BitFiberTurn
			for range c.eachMS / 10 {
				now += 10 * ms
				th := sampler.Thread{Bits: bits, Quality: sampler.StackFresh, Stack: 7}
				th.Kernel.CPUAtNS = now
				s.Add(&th, &gvl.ThreadState{State: gvl.Running, AtNS: now}, false)
			}
		}
		n, ns, longest := s.Long(2005 * ms)
		if n != c.n || ns/ms != c.ms || (longest.ToNS-longest.FromNS)/ms != c.longestMS || n > 0 && longest.Stack != 7 {
			t.Errorf("%s: %d stays of %d ms, the longest %+v", c.name, n, ns/ms, longest)
		}
	}
}
