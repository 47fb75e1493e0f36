// Package barrier measures for how long a thread has made other ractors wait at a barrier. A barrier is a point where
// all ractors must stop.
package barrier

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxStepNS limits the time between two readings of the same barrier, in ns. If more time passes, the barrier may
	// have ended and another one begun.
	maxStepNS = int64(250e6)
	// leastReadings is how many readings with the same stack prove that other threads wait at a single barrier. Between
	// two barriers the thread would run other code. One of so many readings would probably show another stack.
	leastReadings = 10
)

// Stay is a period in which one thread has not stopped at a barrier, so the other threads wait for it there.
type Stay struct {
	// sinceNS is the time of the first reading, and lastNS the time of the last one. Both are zero if no other thread
	// waits for this thread at a barrier.
	sinceNS, lastNS int64
	// delay is the thread's total time without a CPU, in ns: delay[0] at sinceNS, and delay[1] at lastNS.
	delay    [2]int64
	readings int
	stack    sampler.StackID
}

// Add adds a sample of a thread. gap is true if the time since the last sample is unknown.
func (s *Stay) Add(t *sampler.Thread, ts *gvl.ThreadState, gap bool) {
	switch {
	case t.Bits&sampler.BitBarrier == 0 || !ts.State.Held():
		*s = Stay{}
		return
	case s.sinceNS == 0 || gap || ts.Stack != s.stack || ts.AtNS-s.lastNS > maxStepNS:
		*s = Stay{sinceNS: ts.AtNS, delay: [2]int64{t.Kernel.RunDelayNS}, stack: ts.Stack}
	}
	s.lastNS, s.delay[1] = ts.AtNS, t.Kernel.RunDelayNS
	s.readings++
}

// NS returns how long other threads have waited for the thread, in ns. Time in which the thread lacked a CPU is left
// out. NS is zero if no thread waits for it, or if there are too few readings.
func (s *Stay) NS() int64 {
	if s.readings < leastReadings {
		return 0
	}
	return max(s.lastNS-s.sinceNS-(s.delay[1]-s.delay[0]), 0)
}
