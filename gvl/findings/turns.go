package findings

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// blindNS (in ns) and blindIntervals (in sampling intervals) limit the time between two samples. If the time
	// exceeds both, a thread may have released the GVL and got it again unseen. Then a hold counts as one hold only if
	// counters prove that no other thread had the GVL.
	blindNS        = 30e6
	blindIntervals = 3
	// readSlackNS is a tolerance, in ns. A counter that was read at most this much later than a sample still counts as
	// read with the sample.
	readSlackNS = 5e6
)

// beginTurns clears the last sample's results, and drops ractors without a holder or without waiting threads.
func (c *collector) beginTurns() {
	c.turns = slices.DeleteFunc(c.turns, func(t turn) bool { return t.holderAt < 0 || t.waiters == 0 })
	for i := range c.turns {
		c.turns[i].waiters, c.turns[i].holderAt, c.turns[i].moved = 0, -1, false
	}
}

func (c *collector) turn(id sampler.RactorID) *turn {
	for i := range c.turns {
		if c.turns[i].ractor == id {
			return &c.turns[i]
		}
	}
	c.turns = append(c.turns, turn{ractor: id, holderAt: -1})
	return &c.turns[len(c.turns)-1]
}

func (c *collector) addTurn(ts *gvl.ThreadState, i int) {
	t := c.turn(ts.Ractor)
	if ts.State == gvl.Waiting {
		t.waiters++
	} else {
		t.holderAt = i
	}
}

// endTurns measures how long each holder has kept the GVL since another thread began to wait for it.
func (c *collector) endTurns(k *gvl.Tick, at int64) {
	s, states := k.Sample, k.States
	blind := k.Gap || k.ToNS-k.FromNS > max(blindNS, blindIntervals*stream.IntervalNS(c.proc))
	for i := range c.turns {
		t := &c.turns[i]
		if t.holderAt < 0 || t.waiters == 0 {
			*t = turn{ractor: t.ractor, holderAt: -1}
			continue
		}
		h, kernel := &states[t.holderAt], &s.Threads[t.holderAt].Kernel
		stalled := h.State == gvl.Stalled
		head := s.QueueHead(t.ractor, t.head)
		// If another thread is now first in the GVL's queue, the thread that was first before has had the GVL. So the
		// hold has ended. The hold has also ended if a waiting thread has moved. If the changes of the GVL are known,
		// only they decide whether the hold has ended.
		turned := t.moved || head != t.head && t.head != 0
		t.head = head
		begin, blind := at, blind
		if since, ok := c.stream.HeldSince(h.Thread); ok {
			turned, blind = since > t.fromNS, false
			begin = max(since, k.FromNS)
		}
		ended := turned || h.Thread != t.hold.thread || stalled != t.stalled || h.State == gvl.GC || t.fromNS == 0
		lost := false // the hold may have ended unseen and begun again
		if !ended {
			lost = t.doubts(k, blind)
			begin = max(begin, t.untilNS)
		}
		if k.Gap {
			t.countNS = k.ToNS // the time of the gap does not count
		}
		if ended || lost {
			if blind || t.doubtNS != 0 || lost {
				c.cur.longest.least = c.cur.longest.least || c.cur.longest.thread == t.hold.thread && c.cur.longest.ns == t.hold.ns
			}
			// Time in the collector does not count as a part of a hold. So a new hold begins when the collector ends.
			waiters := t.waiters
			*t = turn{ractor: t.ractor, holderAt: t.holderAt, waiters: waiters, stalled: stalled, head: head}
			if h.State == gvl.GC {
				continue
			}
			t.fromNS, t.delay0, t.countNS, t.cpu0, t.cpuAt0 = begin, kernel.RunDelayNS, begin, kernel.CPUNS, kernel.CPUAtNS
			t.hold = hold{thread: h.Thread, least: blind || lost}
		}
		if kernel.Turns != t.turns || t.turnsNS == 0 {
			t.turns, t.turnsNS = kernel.Turns, kernel.CPUAtNS
		}
		t.hold.stack, t.hold.kind = h.Stack, h.State
		t.hold.waiters = max(t.hold.waiters, t.waiters)
		to := at
		if t.doubtNS != 0 {
			to = t.doubtNS
		}
		if stalled { // the thread's sleep is proven only up to the last read of its state in the kernel
			to = max(min(to, kernel.StateAtNS), t.fromNS)
		}
		t.hold.ns = to - t.fromNS
		if d := kernel.RunDelayNS - t.delay0; d > 0 {
			t.hold.ns -= d
		}
		if t.cpuAt0 < t.fromNS && kernel.CPUAtNS >= t.fromNS {
			// Subtract the CPU time that the thread used before it got the GVL.
			ran := int64(0)
			if t.cpuAt0 != 0 {
				ran = min(max(kernel.CPUNS-t.cpu0, 0), kernel.CPUAtNS-t.fromNS)
			}
			t.cpu0, t.cpuAt0 = kernel.CPUNS-ran, kernel.CPUAtNS
		}
		if !stalled && t.cpuAt0 != 0 && kernel.CPUAtNS != 0 {
			// RunDelayNS grows only when a wait for a CPU ends, so it lacks a wait for a CPU that is still in progress.
			// Such a wait must not count as a hold either. So limit the hold's length to the thread's CPU time.
			t.hold.ns = min(t.hold.ns, kernel.CPUNS-t.cpu0)
		}
		limit := int64(c.limits.stuckHold)
		if stalled {
			limit = int64(c.limits.stuckAsleep)
		}
		if t.hold.ns < limit {
			continue
		}
		if !t.counted {
			t.counted = true
			c.cur.stuckNS += t.hold.ns
		} else {
			c.cur.stuckNS += max(to-t.countNS, 0)
		}
		t.countNS = max(t.countNS, to)
		if t.hold.ns > c.cur.longest.ns {
			c.cur.longest = t.hold
			c.cur.longest.least = t.hold.least || t.doubtNS != 0
		}
	}
}

// doubts decides whether a hold has gone on through a time in which samples were too far apart. lost is true if the
// hold may have ended: neither the present counters nor later ones can prove that no other thread had the GVL.
func (t *turn) doubts(k *gvl.Tick, blind bool) (lost bool) {
	s, states := k.Sample, k.States
	if blind {
		if t.doubtNS == 0 {
			t.doubtNS = k.FromNS
		}
		t.untilNS = k.ToNS
	}
	if t.doubtNS == 0 {
		return false
	}
	h := &s.Threads[t.holderAt].Kernel
	// One of two facts is enough to prove that the hold went on. First, the holder has not been put on a CPU again, so
	// it never gave up the GVL. Second, a waiting thread has not moved: after a release, the holder would have had to
	// queue behind this thread.
	open := h.Turns != 0 && h.CPUAtNS < t.untilNS && t.turnsNS <= t.doubtNS+readSlackNS
	proven := h.Turns != 0 && h.Turns == t.turns && t.turnsNS != 0 && t.turnsNS <= t.doubtNS+readSlackNS && h.CPUAtNS >= t.untilNS
	for i := range states {
		w := &states[i].Span
		if states[i].State != gvl.Waiting || states[i].Ractor != t.ractor || s.Threads[i].Bits&sampler.BitQueued == 0 ||
			w.SinceNS == 0 || w.SinceNS > t.doubtNS+readSlackNS {
			continue
		}
		proven = proven || w.ReadNS >= t.untilNS
		open = true // a later reading of the waiting thread's counters can still prove that the hold went on
	}
	if proven {
		t.doubtNS, t.untilNS = 0, 0
	}
	return !proven && !open
}
