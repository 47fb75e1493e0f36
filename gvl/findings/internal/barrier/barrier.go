// Package barrier finds out how long a thread has kept other ractors waiting at a barrier.
package barrier

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxStepNS is the longest time between two readings, in ns. If it is exceeded, the barrier may have ended, and
	// another one may have begun.
	maxStepNS = int64(250e6)
	// leastReadings is the least number of readings with the same stack from which on they count as one barrier.
	// Between two barriers the thread would run other code, and one of so many readings would probably show it.
	leastReadings = 10
)

// Stay is a time during which a thread has not joined a barrier at which others wait.
type Stay struct {
	// sinceNS is the time of the first reading, lastNS of the last one. Both are zero if no barrier waits for the
	// thread.
	sinceNS, lastNS int64
	// delay is the thread's total time without a CPU, in ns: up to sinceNS and up to lastNS.
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

// NS returns how long other threads have waited for the thread, in ns, without the time in which it lacked a CPU. It
// returns zero if no thread waits, or if there are too few readings.
func (s *Stay) NS() int64 {
	if s.readings < leastReadings {
		return 0
	}
	return max(s.lastNS-s.sinceNS-(s.delay[1]-s.delay[0]), 0)
}
