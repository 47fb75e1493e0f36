package stream

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// gapFactor times the expected interval between samples is a gap: nothing is known of the time in it.
	gapFactor = 10
	// minGapNS is the shortest gap: on a busy machine a tick that is late by some ms is normal, and the half-and-half
	// rule still holds for it.
	minGapNS = 250e6
	// slowGapNS is the shortest gap while the clock has slowed down because nothing runs or waits.
	slowGapNS = 5e9
	// lowGapNS and lowBackNS are the shortest Reach.GapNS and BackNS while rates are lower than asked for, to keep within a budget:
	// at the lowest ones a sample comes every 0.4 s and stacks are read every 5 s.
	lowGapNS, lowBackNS = 1e9, 10e9
	// backNS and backStackTicks stack ticks (the longer of the two) are how long a thread may have been Unknown for lack of
	// the kernel's answer and still have all of that time told by it: it is asked at stack ticks at the latest.
	backNS         = 1e9
	backStackTicks = 3
	// defaultLockRate stands in for a rate that a source does not tell, in Hz.
	defaultLockRate = 1000
)

// Reach says how far what is known of a sample reaches, in ns.
type Reach struct {
	// GapNS is the longest interval between two samples in which states are known. In a longer one they are Unknown.
	// SlowGapNS is the same for intervals with a Sample.Slow at either end.
	GapNS, SlowGapNS int64
	// BackNS is how far back an answer of the kernel says what was Unknown for lack of it.
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

// step is the stretch between two samples.
type step struct {
	fromNS, toNS int64
	// midNS is where the earlier state ends and the later one begins.
	midNS int64
	// first: there was no sample before. gap: too long to say anything of it, or samples of it were lost.
	first, gap bool
}

// lengthNS says how far apart the samples around the step are, in ns; never 0, which says that a time is known exactly.
func (s *step) lengthNS() int64 { return max(s.toNS-s.fromNS, 1) }

// beginNS is when a thread began that the sample before did not list, or not in the same stretch of time.
func (s *step) beginNS() int64 {
	if s.gap {
		return s.toNS
	}
	return s.midNS
}

// endNS is when a thread ended that the sample after does not list.
func (s *step) endNS() int64 {
	if s.gap {
		return s.fromNS
	}
	return s.midNS
}

// stepper turns the times of samples into steps.
type stepper struct {
	started bool
	lastNS  int64
	slow    bool
	low     bool // Self.Lowered
	lost    uint64
	// usual is what reach is at the rates asked for.
	usual, reach Reach
}

func newStepper(p sampler.Process) stepper {
	r := ReachOf(p)
	return stepper{usual: r, reach: r}
}

// lowered returns the Reach at rates that are lower than asked for.
func (r Reach) lowered() Reach {
	return Reach{GapNS: max(r.GapNS, lowGapNS), SlowGapNS: r.SlowGapNS, BackNS: max(r.BackNS, lowBackNS)}
}

// IntervalNS is the expected time between two samples.
func IntervalNS(p sampler.Process) int64 {
	rate := max(p.LockRate, p.StackRate)
	if rate <= 0 {
		rate = defaultLockRate
	}
	return int64(1e9 / rate)
}

// next takes the time of a sample. Time never runs backwards: a sample out of order makes an empty step.
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

// tells reports whether a thread's state is the answer for the time since fromNS too, in which it was Unknown for lack of it;
// seen first at the time at.
func (r Reach) tells(ts *gvl.ThreadState, fromNS, at int64) bool {
	return ts.State.Released() && ts.SinceNS <= fromNS && at-fromNS <= r.BackNS
}
