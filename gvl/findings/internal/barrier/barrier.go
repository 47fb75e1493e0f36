// Package barrier measures for how long a thread has made other ractors wait at a barrier. A barrier is a point where
// all ractors must stop.
package barrier

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxStepNS is the longest time between two readings of one barrier, in ns. In a longer time, the barrier may have
	// ended, and another one may have begun.
	maxStepNS = int64(250e6)
	// leastReadings is how many readings with the same stack are needed to count as one barrier. Between two barriers
	// the thread would run other code, and one of so many readings would probably show this.
	leastReadings = 10
)

// Stay is a time in which other threads wait at a barrier for a thread that has not joined it.
type Stay struct {
	// sinceNS is the time of the first reading, lastNS of the last one. Both are zero if no barrier waits for the
	// thread.
	sinceNS, lastNS int64
	// delay has two values of the thread's total time without a CPU, in ns: the value at sinceNS and the value at
	// lastNS.
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

// NS returns how long other threads have waited for the thread, in ns. It does not include time in which the thread
// lacked a CPU. It is zero if no thread waits for it, or if there are too few readings.
func (s *Stay) NS() int64 {
	if s.readings < leastReadings {
		return 0
	}
	return max(s.lastNS-s.sinceNS-(s.delay[1]-s.delay[0]), 0)
}
