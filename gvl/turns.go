package gvl

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// sliceNS is the time slice after which Ruby code lets others run (RUBY_THREAD_TIMESLICE's default, 100 ms;
	// thread.c).
	sliceNS = 100e6
	// blindNS and blindIntervals intervals (the longer of the two) between samples are enough for a thread to let the
	// GVL go and take it again unseen: a hold is not followed over them.
	blindNS        = 30e6
	blindIntervals = 3
)

// beginTurns forgets who held and waited in the last sample, and the ractors where nobody did.
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

func (c *collector) addTurn(ts *ThreadState, i int) {
	t := c.turn(ts.Ractor)
	if ts.State == Waiting {
		t.waiters++
	} else {
		t.holderAt = i
	}
}

// endTurns moves the holds on: how long has each holder kept the GVL since somebody began to wait?
func (c *collector) endTurns(s *sampler.Sample, states []ThreadState, st step, at int64) {
	blind := st.toNS-st.fromNS > max(blindNS, blindIntervals*intervalNS(c.proc))
	for i := range c.turns {
		t := &c.turns[i]
		if t.holderAt < 0 || t.waiters == 0 {
			*t = turn{ractor: t.ractor, holderAt: -1}
			continue
		}
		h, k := &states[t.holderAt], &s.Threads[t.holderAt].Kernel
		stalled := h.State == Stalled
		head := queueHead(s, t.ractor, t.head)
		// Another thread's turn that fell between two samples shows in the queue: who left its head has had the GVL, and so
		// has who waits somewhere else than before. Where changes are known they say it.
		turned := t.moved || head != t.head && t.head != 0
		t.head = head
		begin, blind := at, blind
		if since, ok := c.stream.heldSince(h.Thread); ok {
			turned, blind = since > t.fromNS, false
			begin = max(since, st.fromNS)
		}
		if turned || h.Thread != t.hold.thread || stalled != t.stalled || h.State == GC || t.fromNS == 0 || blind {
			// A hold that the collector lengthened is the collector's, and begins again after it.
			waiters := t.waiters
			*t = turn{ractor: t.ractor, holderAt: t.holderAt, waiters: waiters, stalled: stalled, head: head}
			if h.State == GC {
				continue
			}
			t.fromNS, t.delay0, t.countNS, t.cpu0, t.cpuAt0 = begin, k.RunDelayNS, begin, k.CPUNS, k.CPUAtNS
			t.hold = hold{thread: h.Thread}
		}
		t.hold.stack, t.hold.kind = h.Stack, h.State
		t.hold.waiters = max(t.hold.waiters, t.waiters)
		to := at
		if stalled { // the kernel's answer is believed for a while: what came after it is not known to be sleep
			to = max(min(at, k.StateAtNS), t.fromNS)
		}
		t.hold.ns = to - t.fromNS
		if d := k.RunDelayNS - t.delay0; d > 0 {
			t.hold.ns -= d
		}
		if t.cpuAt0 < t.fromNS && k.CPUAtNS >= t.fromNS {
			// What it had of a CPU before the turn, since its counters were read last, is none of the turn's.
			ran := int64(0)
			if t.cpuAt0 != 0 {
				ran = min(max(k.CPUNS-t.cpu0, 0), k.CPUAtNS-t.fromNS)
			}
			t.cpu0, t.cpuAt0 = k.CPUNS-ran, k.CPUAtNS
		}
		if !stalled && t.cpuAt0 != 0 && k.CPUAtNS != 0 {
			// The kernel counts a wait for a CPU when it is over. Until then the time on a CPU says that it goes on; both are
			// read at stack ticks.
			t.hold.ns = min(t.hold.ns, k.CPUNS-t.cpu0)
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
			c.cur.stuckNS += to - t.countNS
		}
		t.countNS = to
		if t.hold.ns > c.cur.longest.ns {
			c.cur.longest = t.hold
		}
	}
}

// queueHead is the first thread in a ractor's queue; last when the queue could not be read (or is not known: Ruby 2.5).
func queueHead(s *sampler.Sample, id sampler.RactorID, last sampler.ThreadID) sampler.ThreadID {
	for i := range s.Ractors {
		if r := &s.Ractors[i]; r.ID == id {
			if len(r.Queue) > 0 {
				return r.Queue[0]
			}
			break
		}
	}
	return last
}
