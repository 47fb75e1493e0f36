package pace

import (
	"math/rand/v2"

	"github.com/ddtop/ddtop/sampler"
)

// These constants are times of the clock, in ns.
const (
	// slowAfterNS decides when the clock slows down, in ns: after no thread has run or waited for this long.
	slowAfterNS = 1_000_000_000
	// firstSlowNS replaces slowAfterNS at the start, while no thread has run or waited yet, in ns. It is a tenth of
	// slowAfterNS, because a process that is idle at first usually stays idle. For such a process, a second at the full
	// rate costs as much as half a minute at the slow rate.
	firstSlowNS = 100_000_000
	// firstTicks is the number of ticks that must have come before firstSlowNS applies.
	firstTicks = 50
	// slowIntervalNS is the interval between ticks of a slow clock, in ns. Every second tick reads the stacks. The
	// interval is slowestIntervalNS if no thread has run or waited for slowestAfterNS.
	slowIntervalNS    = 50_000_000
	slowestIntervalNS = 100_000_000
	slowestAfterNS    = 10_000_000_000
	// slowExactNS replaces slowIntervalNS for a Clock in exact mode (Clock.Exact). It can be longer, because in this
	// mode ddtop knows the changes of the GVL without ticks.
	slowExactNS = 125_000_000
	// slowestExactNS replaces slowExactNS when no thread has run or waited for slowestAfterNS.
	slowestExactNS = 250_000_000
	// GlanceNS is the interval between two glances, in ns. A glance is a short read of the states of threads that may
	// have changed (moved_linux.go). Glances see intervals without a CPU that last 10 ms or more. In Rails, these are
	// 90 % of the time that threads are without a CPU.
	//
	// glanceGapNS is the longest interval between two samples, whatever glances show. leastGlanceGapNS replaces it
	// while threads run and samples are cheap. A sample is cheap if samples at this interval cost less than
	// glanceGapShare of the CPU time that ddtop may use.
	GlanceNS         = 10_000_000
	glanceGapNS      = 500_000_000
	leastGlanceGapNS = 100_000_000
	glanceGapShare   = 0.2
)

// GlanceGap returns the longest interval between two samples if glances are made in between, in ns. sampleNS is the
// CPU time of a sample without stacks. share is the share of a CPU that ddtop may take. Zero means that there is no
// limit.
func GlanceGap(sampleNS int64, share float64, slow bool) int64 {
	switch {
	case slow:
		return glanceGapNS
	case share == 0:
		return leastGlanceGapNS
	}
	return min(max(int64(float64(sampleNS)/(glanceGapShare*share)), leastGlanceGapNS), glanceGapNS)
}

// Clock decides when the next tick of a process is due, and what this tick reads.
type Clock struct {
	lockNS, stackNS float64
	// slowLockNS and slowStackNS are the intervals of a slow clock. The clock is slow while no thread runs or waits.
	slowLockNS, slowStackNS float64
	Next, nextStack         int64
	// restNS is the time until which no stacks are read. lastStack is when stacks were last read.
	restNS, lastStack int64

	lastBusy int64
	Slow     bool
	// Exact is true in exact mode: ddtop knows each change of the GVL without ticks.
	Exact bool
	// Serves is true from the first request or job that the process was seen to serve.
	Serves bool
	// allStacks is true if ddtop samples so many processes that ticks are rare. Each tick then reads stacks, unless
	// stacks are due less often than ticks.
	allStacks bool
	// ticks counts the ticks until the first thread has run or waited. After that it is -1.
	ticks int
	rng   *rand.Rand
}

// NewClock returns a clock with these rates, in Hz. Its first tick is due at the time now, in ns.
func NewClock(stackRate, lockRate float64, now int64) *Clock {
	return &Clock{
		lockNS: 1e9 / lockRate, stackNS: 1e9 / stackRate,
		slowLockNS: slowIntervalNS, slowStackNS: 2 * slowIntervalNS,
		Next: now, nextStack: now, lastStack: now, lastBusy: now,
		rng: rand.New(rand.NewPCG(uint64(now), 0x9e3779b97f4a7c15)),
	}
}

// jitter returns a random interval between half and one and a half times ns.
func (c *Clock) jitter(ns float64) int64 { return int64(ns * (0.5 + c.rng.Float64())) }

// lockJitter draws the random interval to the next lock tick. In exact mode, half of the usual jitter is enough. In
// this mode every change of the GVL is known without ticks, so the times of ticks cannot bias the states.
func (c *Clock) lockJitter(ns float64) int64 {
	if c.Exact {
		return (c.jitter(ns) + int64(ns)) / 2
	}
	return c.jitter(ns)
}

// Tick is called when the clock wakes up, at the time now. It returns what to read, and how many ticks were missed.
func (c *Clock) Tick(now int64) (depth sampler.Depth, late uint64) {
	interval, stack := c.lockNS, c.stackNS
	if c.Slow {
		interval, stack = max(interval, c.slowLockNS), max(stack, c.slowStackNS)
		exact := float64(slowExactNS)
		if now-c.lastBusy > slowestAfterNS {
			interval, stack = max(interval, slowestIntervalNS), max(stack, 2*slowestIntervalNS)
			exact = slowestExactNS
		}
		if c.Exact {
			interval, stack = max(interval, exact), max(stack, 2*exact)
		}
	}
	if behind := float64(now - c.Next); behind > interval {
		late = uint64(behind / interval)
	}
	if now >= c.nextStack || c.allStacks && interval >= stack && now >= c.restNS {
		depth, c.lastStack = sampler.StackTick, now
		c.nextStack += c.jitter(stack)
		if c.nextStack <= now {
			c.nextStack = now + c.jitter(stack)
		}
	}
	c.Next += c.lockJitter(interval)
	if c.Next <= now {
		c.Next = now + c.lockJitter(interval)
	}
	return depth, late
}

// Rest delays the next reading of stacks to the time until. If the budget is overdrawn, it delays the reading further,
// to the time owed. But owed cannot lower the rate of readings below leastStackHz.
func (c *Clock) Rest(until, owed int64) {
	c.restNS = max(until, min(owed, c.lastStack+1e9/leastStackHz))
	c.nextStack = max(c.nextStack, c.restNS)
}

// Wait delays the next tick until a certain time. If the tick is due later in any case, Wait changes nothing.
func (c *Clock) Wait(until int64) { c.Next = max(c.Next, until) }

// Hurry makes the next tick due at once.
func (c *Clock) Hurry(now int64) { c.Next = min(c.Next, now) }

// Note records whether a tick has found a thread that runs or waits. The first such tick ends the slow rate at once.
func (c *Clock) Note(now int64, busy bool) {
	if busy {
		c.lastBusy, c.ticks = now, -1
		if c.Slow {
			c.Slow = false
			c.Next, c.nextStack = now+c.jitter(c.lockNS), max(now+c.jitter(c.lockNS), c.restNS)
		}
		return
	}
	after := int64(slowAfterNS)
	if c.ticks >= 0 {
		if c.ticks++; c.ticks >= firstTicks {
			after = firstSlowNS
		}
	}
	if !c.Slow && now-c.lastBusy > after && c.lockNS < c.slowLockNS {
		c.Slow = true
	}
}
