package gvl

import "github.com/ddtop/ddtop/sampler"

const (
	// gapFactor times the expected interval between samples is a gap: nothing is known of the time in it.
	gapFactor = 10
	// minGapNS is the shortest gap: on a busy machine a tick that is late by some ms is normal, and the half-and-half
	// rule still holds for it.
	minGapNS = 250e6
	// slowGapNS is the shortest gap while the clock has slowed down because nothing runs or waits.
	slowGapNS = 5e9
	// defaultLockRate stands in for a rate that a source does not tell, in Hz.
	defaultLockRate = 1000
)

// step is the stretch between two samples.
type step struct {
	fromNS, toNS int64
	// midNS is where the earlier state ends and the later one begins.
	midNS int64
	// first: there was no sample before. gap: too long to say anything of it.
	first, gap bool
}

// stepper turns the times of samples into steps.
type stepper struct {
	started bool
	lastNS  int64
	slow    bool
	gapNS   int64
}

func newStepper(p sampler.Process) stepper {
	return stepper{gapNS: max(minGapNS, gapFactor*intervalNS(p))}
}

// intervalNS is the expected time between two samples.
func intervalNS(p sampler.Process) int64 {
	rate := max(p.LockRate, p.StackRate)
	if rate <= 0 {
		rate = defaultLockRate
	}
	return int64(1e9 / rate)
}

// maxTimeNS bounds the times of samples, which a damaged recording can hold anything for: 73 years.
const maxTimeNS = 1 << 61

// timeOf is a sample's time, made harmless.
func timeOf(s *sampler.Sample) int64 { return min(max(s.TimeNS, 0), maxTimeNS) }

// next takes the time of a sample. Time never runs backwards: a sample out of order makes an empty step.
func (t *stepper) next(s *sampler.Sample) step {
	now := timeOf(s)
	if !t.started {
		t.started, t.lastNS, t.slow = true, now, s.Slow
		return step{fromNS: now, toNS: now, midNS: now, first: true}
	}
	limit := t.gapNS
	if s.Slow || t.slow {
		limit = max(limit, slowGapNS)
	}
	from, to := t.lastNS, max(now, t.lastNS)
	t.lastNS, t.slow = to, s.Slow
	return step{fromNS: from, toNS: to, midNS: from + (to-from)/2, gap: to-from > limit}
}
