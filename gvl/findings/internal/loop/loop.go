// Package loop notes since when a thread with a fiber scheduler has run one fiber, so that its event loop stands still.
package loop

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxStepNS is the longest time between two readings of a thread, in ns. In a longer one its event loop may have
	// run.
	maxStepNS = int64(250e6)
	// leastReadings is the least number of readings of a stay. Another fiber that runs in between is then likely to be
	// seen.
	leastReadings = 10
	// OverNS is the time of Often, in ns.
	OverNS = int64(10e9)
	// longNS is the least length of a stay in Often, in ns. A shorter one delays the other fibers no more than a slice
	// of the GVL does.
	longNS = int64(100e6)
	// longReadings is the least number of readings of a stay in Often. Many stays are judged together there, so each
	// needs fewer.
	longReadings = 3
	// maxStays bounds the stays in Often: all that fit into its time.
	maxStays = int(OverNS / longNS)
)

// Stay is the time since when a thread has run one fiber, which is not the one with the event loop.
type Stay struct {
	turn sampler.ThreadBits
	// sinceNS is the first reading, lastNS the last one. Both are zero if the thread runs its event loop.
	sinceNS, lastNS int64
	// waitNS is the time in which the thread waited for the GVL. delay is its time without a CPU since its start, in
	// ns, by the last reading at sinceNS and by the last reading at lastNS.
	waitNS   int64
	delay    [2]int64
	readings int
	// untilNS is the time up to which the stay is known, in ns. It is the last reading of the counters if the thread
	// held the GVL: it may lack a CPU since.
	untilNS int64
	stack   sampler.StackID
	// ended are earlier stays that were long, oldest first. They end within OverNS before the last reading.
	ended []ended
}

// ended is a stay that has ended.
type ended struct {
	atNS, ns int64
	stack    sampler.StackID
}

// Add adds a sample of a thread. gap is true if it is not known what happened since the last one.
func (s *Stay) Add(t *sampler.Thread, ts *gvl.ThreadState, gap bool) {
	turn := t.Bits & sampler.BitFiberTurn
	switch {
	case t.Bits&sampler.BitLoopFiber == 0:
		s.begin(Stay{}, ts.AtNS)
		return
	case t.Quality&sampler.StackFresh == 0:
		return // the fiber's words are older
	case s.sinceNS == 0 || gap || turn != s.turn || ts.AtNS-s.lastNS > maxStepNS:
		s.begin(Stay{turn: turn, sinceNS: ts.AtNS, delay: [2]int64{t.Kernel.RunDelayNS}}, ts.AtNS)
	case ts.State == gvl.Waiting:
		s.waitNS += ts.AtNS - s.lastNS
	}
	s.lastNS, s.untilNS = ts.AtNS, ts.AtNS
	if ts.State.Held() {
		s.untilNS = min(ts.AtNS, t.Kernel.CPUAtNS)
	}
	s.delay[1] = t.Kernel.RunDelayNS
	s.stack = ts.Stack
	s.readings++
}

// begin begins the next stay, and keeps the one that has ended if it was long.
func (s *Stay) begin(next Stay, nowNS int64) {
	next.ended = s.ended
	if ns := s.long(); ns > 0 {
		next.ended = append(next.ended, ended{s.lastNS, ns, s.stack})
	}
	old := 0
	for old < len(next.ended) && (next.ended[old].atNS < nowNS-OverNS || len(next.ended)-old > maxStays) {
		old++
	}
	next.ended = slices.Delete(next.ended, 0, old)
	*s = next
}

// Often returns for how long, in ns, the thread has run single fibers for a tenth of a second or longer each. It covers
// the OverNS up to the last reading. It also returns the longest of these stays, in ns, their number, and the stack of
// the last one.
func (s *Stay) Often() (sum, longest int64, n int, stack sampler.StackID) {
	add := func(ns int64, of sampler.StackID) {
		sum, longest, n, stack = sum+ns, max(longest, ns), n+1, of
	}
	for _, x := range s.ended {
		add(x.ns, x.stack)
	}
	if ns := s.long(); ns > 0 {
		add(ns, s.stack)
	}
	return min(sum, OverNS), longest, n, stack
}

// long returns how long the stay has lasted so far, in ns, or zero if it is not a long one.
func (s *Stay) long() int64 {
	if ns := s.own(); s.readings >= longReadings && ns >= longNS {
		return ns
	}
	return 0
}

// own is the time of the stay without the thread's waits for the GVL and for a CPU, in ns.
func (s *Stay) own() int64 {
	return max(s.untilNS-s.sinceNS-s.waitNS-(s.delay[1]-s.delay[0]), 0)
}

// NS returns how long the thread has run the fiber, in ns, without its waits for the GVL and for a CPU. It is zero if
// the thread runs its event loop, or if the readings are too few.
func (s *Stay) NS() int64 {
	if s.readings < leastReadings {
		return 0
	}
	return s.own()
}
