// Package loop notes since when a thread with a fiber scheduler has run one fiber, so that its event loop stands still.
package loop

import (
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
}

// Add adds a sample of a thread. gap is true if it is not known what happened since the last one.
func (s *Stay) Add(t *sampler.Thread, ts *gvl.ThreadState, gap bool) {
	turn := t.Bits & sampler.BitFiberTurn
	switch {
	case t.Bits&sampler.BitLoopFiber == 0:
		*s = Stay{}
		return
	case t.Quality&sampler.StackFresh == 0:
		return // the fiber's words are older
	case s.sinceNS == 0 || gap || turn != s.turn || ts.AtNS-s.lastNS > maxStepNS:
		*s = Stay{turn: turn, sinceNS: ts.AtNS, delay: [2]int64{t.Kernel.RunDelayNS}}
	case ts.State == gvl.Waiting:
		s.waitNS += ts.AtNS - s.lastNS
	}
	s.lastNS, s.untilNS = ts.AtNS, ts.AtNS
	if ts.State.Held() {
		s.untilNS = min(ts.AtNS, t.Kernel.CPUAtNS)
	}
	s.delay[1] = t.Kernel.RunDelayNS
	s.readings++
}

// NS returns how long the thread has run the fiber, in ns, without its waits for the GVL and for a CPU. It is zero if
// the thread runs its event loop, or if the readings are too few.
func (s *Stay) NS() int64 {
	if s.readings < leastReadings {
		return 0
	}
	return max(s.untilNS-s.sinceNS-s.waitNS-(s.delay[1]-s.delay[0]), 0)
}
