package pace

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// run lets a clock tick for ns of virtual time, and counts its ticks.
func run(c *Clock, from int64, ns int64, busy bool, delay func(i int) int64) (ticks, stacks int, late uint64) {
	now := from
	for i := 0; now < from+ns; i++ {
		if now < c.Next {
			now = c.Next
		}
		now += delay(i)
		depth, l := c.Tick(now)
		ticks++
		late += l
		if depth == sampler.StackTick {
			stacks++
		}
		c.Note(now, busy)
	}
	return ticks, stacks, late
}

func none(int) int64 { return 0 }

func TestClockKeepsItsRates(t *testing.T) {
	c := NewClock(100, 1000, 0)
	ticks, stacks, late := run(c, 0, 10e9, true, none)
	if ticks < 9700 || ticks > 10300 {
		t.Errorf("%d ticks in 10 s at 1 kHz", ticks)
	}
	if stacks < 950 || stacks > 1050 {
		t.Errorf("%d stack ticks in 10 s at 100 Hz", stacks)
	}
	if late != 0 {
		t.Errorf("%d late ticks of a clock that is never late", late)
	}
}

func TestClockSkipsWhatItMissed(t *testing.T) {
	c := NewClock(100, 1000, 0)
	ticks, _, late := run(c, 0, 1e9, true, func(i int) int64 {
		if i == 100 {
			return 200e6
		}
		return 0
	})
	if ticks > 860 {
		t.Errorf("%d ticks: missed ones were caught up", ticks)
	}
	if late < 150 || late > 250 {
		t.Errorf("%d ticks counted as late after a stall of 200 ticks", late)
	}
}

func TestClockSlowsDownAndComesBack(t *testing.T) {
	c := NewClock(100, 1000, 0)
	run(c, 0, 2e9, false, none)
	if !c.Slow {
		t.Fatal("nothing ran for 2 s and the clock is still fast")
	}
	ticks, _, _ := run(c, c.Next, 10e9, false, none)
	if ticks < 160 || ticks > 220 {
		t.Errorf("%d ticks in 10 idle seconds", ticks)
	}
	ticks, stacks, _ := run(c, c.Next, 10e9, false, none)
	if ticks < 90 || ticks > 110 || stacks < 40 || stacks > 60 {
		t.Errorf("%d ticks, %d of stacks, in the next 10 idle seconds", ticks, stacks)
	}
	now := c.Next
	c.Tick(now)
	c.Note(now, true)
	if c.Slow || c.Next > now+2e6 {
		t.Errorf("a sign of life at %d: slow %v, next tick at +%d ns", now, c.Slow, c.Next-now)
	}
}

// TestClockSlowsDownSoonerAtTheStart: if a process is idle from the first sample on, its clock slows down after a tenth
// of the usual time. Before that, the clock must have made firstTicks ticks. If a thread has run even once, the clock
// slows down only after the usual time.
func TestClockSlowsDownSoonerAtTheStart(t *testing.T) {
	c := NewClock(100, 1000, 0)
	run(c, 0, 90e6, false, none)
	if c.Slow {
		t.Error("slow after 90 ms")
	}
	ticks, _, _ := run(c, c.Next, 910e6, false, none)
	if !c.Slow || ticks > 60 {
		t.Errorf("slow %v, %d ticks in the rest of the first second", c.Slow, ticks)
	}
	c = NewClock(100, 1000, 0)
	run(c, 0, 200e6, false, func(i int) int64 {
		if i == 0 {
			return 180e6 // ns; the first sample is slow because it reads all names
		}
		return 0
	})
	if c.Slow {
		t.Error("slow after some 20 ticks")
	}
	c = NewClock(100, 1000, 0)
	c.Tick(c.Next)
	c.Note(0, true)
	run(c, c.Next, 900e6, false, none)
	if c.Slow {
		t.Error("slow 900 ms after something ran")
	}
}

// TestGlanceGap: between two samples, ddtop makes glances, which are short reads of threads' states. If a thread runs,
// a sample still comes ten times a second. Samples are rarer if they would take more than a fifth of ddtop's share.
// There are always at least two a second.
func TestGlanceGap(t *testing.T) {
	for _, c := range []struct {
		sampleNS int64
		share    float64
		slow     bool
		want     int64
	}{
		{0, 0.03, false, 100e6}, {60_000, 0.03, false, 100e6}, {900_000, 0.03, false, 150e6}, {20_000_000, 0.03, false, 500e6},
		{20_000_000, 0, false, 100e6}, {60_000, 0.03, true, 500e6},
	} {
		if got := GlanceGap(c.sampleNS, c.share, c.slow); got/1e6 != c.want/1e6 {
			t.Errorf("samples of %d ns, with %v of a CPU, slow %v: %d ms, not %d", c.sampleNS, c.share, c.slow, got/1e6, c.want/1e6)
		}
	}
}

// TestIdleClockOfKnownChanges: in exact mode, ddtop knows each change of the GVL without ticks. The clock of an idle
// process then ticks eight times a second. If no thread has run for ten seconds, it ticks four times a second. When a
// thread runs, the full rate returns.
func TestIdleClockOfKnownChanges(t *testing.T) {
	c := NewClock(100, 100, 0)
	c.Exact, c.Slow = true, true
	ticks := func(from, to int64) (n int64) {
		for c.Next < to {
			if now := c.Next; now >= from {
				n++
			}
			c.Tick(c.Next)
		}
		return n
	}
	for _, x := range []struct{ from, to, want int64 }{
		{from: 2e9, to: slowestAfterNS, want: (slowestAfterNS - 2e9) / slowExactNS},
		{from: slowestAfterNS + 1e9, to: 60e9, want: (60e9 - slowestAfterNS - 1e9) / slowestExactNS},
	} {
		if n := ticks(x.from, x.to); n < x.want*9/10 || n > x.want*11/10 {
			t.Errorf("%d ticks from %d to %d ns, want about %d", n, x.from, x.to, x.want)
		}
	}
	if c.Note(60e9, true); c.Slow || c.Next > 60e9+2*int64(c.lockNS) {
		t.Errorf("something runs at 60 s, and the next tick is at %d ns", c.Next)
	}
}
