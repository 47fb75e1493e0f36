package stream

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// gapFactor and minGapNS decide when the time between two samples is a gap: a time in which the states of threads
	// are unknown. gapFactor is a multiple of the expected interval between samples.
	gapFactor = 10
	// minGapNS is the length of the shortest gap, in ns. On a busy machine a tick is often late by a few ms. This must
	// not be a gap.
	minGapNS = 250e6
	// slowGapNS is the shortest gap, in ns, at times when ddtop's clock ticks slowly because no thread runs or waits.
	slowGapNS = 5e9
	// lowGapNS and lowBackNS are lower limits of Reach.GapNS and Reach.BackNS, in ns, while a budget has lowered the
	// rates. At the lowest rates a sample comes every 0.4 s, and stacks are read every 5 s.
	lowGapNS, lowBackNS = 1e9, 10e9
	// backNS and backStackTicks limit how late an answer of the kernel about a thread may come. If it comes in time, it
	// also explains what the thread did before the answer. The limit is the longer of two times: backNS, in ns, and
	// backStackTicks intervals between reads of stacks. ddtop asks the kernel at least whenever it reads stacks.
	backNS         = 1e9
	backStackTicks = 3
	// defaultLockRate replaces an unknown rate, in Hz.
	defaultLockRate = 1000
)

// Reach limits the time around a sample that the sample's states can explain, in ns.
type Reach struct {
	// GapNS is the longest time between two samples in which states are known. In a longer time they are Unknown.
	// SlowGapNS replaces GapNS if ddtop's clock was slow (Sample.Slow) at one of the two samples, or at both.
	GapNS, SlowGapNS int64
	// If the kernel has not answered what a thread does, the thread is Unknown. A later answer still explains this
	// Unknown time, if it began at most BackNS before the answer, in ns.
	BackNS int64
}

// ReachOf returns the Reach of the samples of p.
func ReachOf(p sampler.Process) Reach {
	r := Reach{GapNS: max(minGapNS, gapFactor*IntervalNS(p)), BackNS: backNS}
	r.SlowGapNS = max(r.GapNS, slowGapNS)
	if p.StackRate > 0 {
		r.BackNS = max(r.BackNS, int64(backStackTicks*1e9/p.StackRate))
	}
	return r
}

// step is the time between two samples.
type step struct {
	fromNS, toNS int64
	// midNS is the middle of the step. There the state of the earlier sample ends, and the state of the later sample
	// begins.
	midNS int64
	// first is true if there was no sample before. gap is true if nothing is known of the time in this step: it is too
	// long, or samples were lost.
	first, gap bool
}

// lengthNS returns the step's length in ns. It is never zero, because zero means that a time is known exactly.
func (s *step) lengthNS() int64 { return max(s.toNS-s.fromNS, 1) }

// beginNS returns when a thread begins in this step. The thread is new in this sample, or continues after a gap.
func (s *step) beginNS() int64 {
	if s.gap {
		return s.toNS
	}
	return s.midNS
}

// endNS returns when a thread ends in this step. The last sample listed the thread, and this sample does not.
func (s *step) endNS() int64 {
	if s.gap {
		return s.fromNS
	}
	return s.midNS
}

// stepper turns the times of samples into steps. A step is the time between two consecutive samples.
type stepper struct {
	started bool
	lastNS  int64
	slow    bool
	low     bool // Self.Lowered of the last sample
	lost    uint64
	// usual is the Reach at the requested rates. reach is the Reach at the present rates.
	usual, reach Reach
}

func newStepper(p sampler.Process) stepper {
	r := ReachOf(p)
	return stepper{usual: r, reach: r}
}

// lowered returns the Reach to use while a budget has lowered the rates.
func (r Reach) lowered() Reach {
	return Reach{GapNS: max(r.GapNS, lowGapNS), SlowGapNS: r.SlowGapNS, BackNS: max(r.BackNS, lowBackNS)}
}

// IntervalNS returns the expected time between two samples, in ns.
func IntervalNS(p sampler.Process) int64 {
	rate := max(p.LockRate, p.StackRate)
	if rate <= 0 {
		rate = defaultLockRate
	}
	return int64(1e9 / rate)
}

// next returns the step from the previous sample to s. If s is earlier than the previous sample, the step is empty.
func (t *stepper) next(s *sampler.Sample) step {
	now := gvl.TimeOf(s)
	t.reach = t.usual
	if s.Self.Lowered || t.low {
		t.reach = t.usual.lowered()
	}
	t.low = s.Self.Lowered
	if !t.started {
		t.started, t.lastNS, t.slow, t.lost = true, now, s.Slow, s.Reads.Lost
		return step{fromNS: now, toNS: now, midNS: now, first: true}
	}
	limit := t.reach.GapNS
	if s.Slow || t.slow {
		limit = t.reach.SlowGapNS
	}
	from, to := t.lastNS, max(now, t.lastNS)
	gap := to-from > limit || s.Reads.Lost != t.lost
	t.lastNS, t.slow, t.lost = to, s.Slow, s.Reads.Lost
	return step{fromNS: from, toNS: to, midNS: from + (to-from)/2, gap: gap}
}

// tells reports whether the state ts, seen at the time at, also explains the Unknown time since fromNS. Two conditions
// must be true. The thread has been in this state, without the GVL, since fromNS. And fromNS is at most BackNS before
// at.
func (r Reach) tells(ts *gvl.ThreadState, fromNS, at int64) bool {
	return ts.State.Released() && ts.SinceNS <= fromNS && at-fromNS <= r.BackNS
}
