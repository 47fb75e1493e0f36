// Package loop measures how long a thread with a fiber scheduler runs one fiber without a break. During this time its
// event loop cannot run, and so no other fiber can. Such a period is called a stay. The package also counts long stays.
package loop

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxStepNS is the longest time between two readings of a stay, in ns. A stay is a period in which a thread runs
	// one fiber. If more time passes between two readings, the event loop may have run unseen.
	maxStepNS = int64(250e6)
	// leastReadings is how many readings prove a stay, a period in which a thread runs one fiber. If another fiber had
	// run in between, one of so many readings would probably show this fiber.
	leastReadings = 10
	// longNS is the minimum length of a long stay, a period in which a thread runs one fiber, in ns. A client notices a
	// delay of this length. longReadings is the minimum number of readings in a long stay. With fewer readings, several
	// consecutive runs of a few ms could look like one stay.
	longNS, longReadings = int64(250e6), 5
	// maxLong limits how many long stays (long periods with one fiber) are kept. More than this cannot fit into ten
	// seconds, which is the length of the window of findings.
	maxLong = 40
)

// Span is a long stay: a period in which a thread ran only one fiber.
type Span struct {
	FromNS, ToNS int64
	// Stack is the thread's stack in the last reading of this stay.
	Stack sampler.StackID
}

// Stay is a period in which a thread runs one fiber that is not its event loop.
type Stay struct {
	turn sampler.ThreadBits
	// sinceNS is the time of the first reading, and lastNS of the last. Both are zero while the event loop runs.
	sinceNS, lastNS int64
	// waitNS is how long the thread waited for the GVL in this stay. delay has two values of a counter of the kernel.
	// The counter is how long the thread has waited for a CPU since it was created, in ns. delay[0] is its value at
	// sinceNS, delay[1] at lastNS.
	waitNS   int64
	delay    [2]int64
	readings int
	// untilNS is the time up to which the stay is measured, in ns. Usually it is lastNS. If the thread held the GVL, it
	// is the time at which delay[1] was read. After that time the thread may have waited for a CPU, and delay[1] does
	// not include this wait.
	untilNS int64
	stack   sampler.StackID
	// ended are the latest long stays that have ended, the oldest first.
	ended []Span
}

// Add adds a sample of a thread. gap is true if samples before it are missing.
func (s *Stay) Add(t *sampler.Thread, ts *gvl.ThreadState, gap bool) {
	turn := t.Bits & sampler.BitFiberTurn
	switch {
	case t.Bits&sampler.BitLoopFiber == 0:
		s.begin(Stay{})
		return
	case t.Quality&sampler.StackFresh == 0:
		return // the thread's fiber was not read in this sample
	case s.sinceNS == 0 || gap || turn != s.turn || ts.AtNS-s.lastNS > maxStepNS:
		s.begin(Stay{turn: turn, sinceNS: ts.AtNS, delay: [2]int64{t.Kernel.RunDelayNS}})
	case ts.State == gvl.Waiting:
		s.waitNS += ts.AtNS - s.lastNS
	}
	s.lastNS, s.untilNS, s.stack = ts.AtNS, ts.AtNS, t.Stack
	if ts.State.Held() {
		s.untilNS = min(ts.AtNS, t.Kernel.CPUAtNS)
	}
	s.delay[1] = t.Kernel.RunDelayNS
	s.readings++
}

// NS returns how long the thread has run the fiber, in ns, without its waits for the GVL and for a CPU. It is zero if
// the thread runs its event loop, or if there are too few readings.
func (s *Stay) NS() int64 {
	if s.readings < leastReadings {
		return 0
	}
	return s.net()
}

// net returns the same length as NS, but does not return zero if there are too few readings.
func (s *Stay) net() int64 { return max(s.untilNS-s.sinceNS-s.waitNS-(s.delay[1]-s.delay[0]), 0) }

// long reports whether the stay (a period with one fiber) is long enough to be counted.
func (s *Stay) long() bool { return s.readings >= longReadings && s.net() >= longNS }

// begin ends the present stay (a period with one fiber), keeps it if it was long, and begins the next one.
func (s *Stay) begin(next Stay) {
	next.ended = s.ended
	if s.long() {
		if len(next.ended) >= maxLong {
			next.ended = slices.Delete(next.ended, 0, 1)
		}
		next.ended = append(next.ended, Span{s.sinceNS, s.lastNS, s.stack})
	}
	*s = next
}

// Long returns figures about the long stays that ended at or after fromNS, or are in progress. n is their number, ns
// their total time since fromNS in ns, and longest the longest stay. Time without a CPU and waits for the GVL are
// included, because the other fibers cannot run in this time either.
func (s *Stay) Long(fromNS int64) (n int, ns int64, longest Span) {
	add := func(x Span) {
		if x.ToNS < fromNS {
			return
		}
		n++
		ns += x.ToNS - max(x.FromNS, fromNS)
		if x.ToNS-x.FromNS > longest.ToNS-longest.FromNS {
			longest = x
		}
	}
	for _, x := range s.ended {
		add(x)
	}
	if s.long() {
		add(Span{s.sinceNS, s.lastNS, s.stack})
	}
	return n, ns, longest
}
