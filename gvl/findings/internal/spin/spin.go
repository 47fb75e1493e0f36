// Package spin finds threads that spin: they wait for something or try something again and again. In samples, such a
// thread has only a few different stacks.
package spin

import (
	"math"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxStacks limits the stacks of a thread that spins. A thread with more stacks does real work.
	maxStacks = 12
	// tried, asked, blindly and least are minimum shares of the samples in which a thread holds the GVL. An attempt is
	// a call that only waits or tries something (code.Attempt). A thread counts as spinning if enough of these samples
	// show it in attempts:
	//
	// - tried: in attempts or in callers of attempts.
	// - asked: the same, for a thread that only asks (AttemptAsk).
	// - blindly: in attempts without their callers, for a thread that only reads or only writes. This may be work.
	// - least: in attempts without their callers, in all cases.
	tried, asked, blindly, least = .6, .5, .8, .1
	// The share late is added to the share tried if threads lack a CPU, because real work can then look like spinning.
	// In a measurement without a free CPU, the share was 64 % for threads that did real work 1,000 times a second.
	late = .1
	// looks is the minimum number of samples that show spinning threads with the GVL, summed over all threads with the
	// same outermost method. Fewer samples prove nothing.
	looks = 8
)

// reading is a reading of a thread's counters. readyNS is the time in which the thread had a CPU or was ready for one.
type reading struct{ atNS, turns, cpuNS, readyNS int64 }

// Stay is a period in which a thread has been at only a few different stacks.
type Stay struct {
	stacks [maxStacks]sampler.StackID
	n      int
	// sinceNS is when the Stay began. held counts, for each stack, the samples in which the thread held the GVL.
	sinceNS int64
	held    [maxStacks]int64
	// first and last are the first and the last reading of the thread's counters.
	first, last reading
}

// Add adds a sample of a thread, unless its stack was not read.
func (s *Stay) Add(t *sampler.Thread, ts *gvl.ThreadState) {
	const bits = sampler.StackFresh | sampler.StackFailed | sampler.StackPartial
	if ts.Stack == 0 || t.Quality&bits != sampler.StackFresh {
		return
	}
	i := slices.Index(s.stacks[:s.n], ts.Stack)
	if i < 0 {
		if s.n == maxStacks || s.n == 0 {
			*s = Stay{sinceNS: ts.AtNS}
		}
		i = s.n
		s.stacks[i] = ts.Stack
		s.n++
	}
	if ts.State == gvl.Running || ts.State == gvl.Native {
		s.held[i]++
	}
	if k := &t.Kernel; k.CPUAtNS >= s.sinceNS {
		s.last = reading{k.CPUAtNS, k.Turns, k.CPUNS, k.CPUNS + k.RunDelayNS}
		if s.first.atNS == 0 {
			s.first = s.last
		}
	}
}

// Rates returns how often a thread wakes up per second, how many CPUs it uses, and how many CPUs it uses or waits for.
func (s *Stay) Rates() (wakes, cpu, ready float64) {
	span := max(s.last.atNS-s.first.atNS, 1)
	wakes = float64(s.last.turns-s.first.turns) * 1e9 / float64(span)
	return wakes, gvl.Ratio(s.last.cpuNS-s.first.cpuNS, span), gvl.Ratio(s.last.readyNS-s.first.readyNS, span)
}

// Place returns the first stack of the stay. It is zero if there was no sample.
func (s *Stay) Place() sampler.StackID { return s.stacks[0] }

// SpanNS returns the time between the first and the last reading of the thread's counters, in ns.
func (s *Stay) SpanNS() int64 { return s.last.atNS - s.first.atNS }

// Samples counts samples in which threads that may spin hold the GVL. held is the number of all such samples. tried is
// the number of samples in an attempt, a call that only waits or tries something (code.Attempt). onWay is the number of
// samples in a caller of an attempt.
type Samples struct {
	held, tried, onWay int64
	Attempts           code.Attempt
}

// Add adds the samples of one thread.
func (l *Samples) Add(dict *sampler.Dictionary, s *Stay) {
	var onWay [maxStacks]bool
	doubts := doubtsOf(dict, s)
	for i, stack := range s.stacks[:s.n] {
		a := code.AttemptOf(dict, stack)
		l.held += s.held[i]
		if a == 0 || s.held[i] == 0 {
			continue
		}
		l.tried += s.held[i]
		l.Attempts |= a
		for caller, frame := range code.Frames(dict, stack, code.MaxFrames) {
			if j := slices.Index(s.stacks[:s.n], caller); j >= 0 {
				onWay[j] = true
			}
			for _, d := range doubts {
				onWay[d.at] = onWay[d.at] || d.frame == frame && d.caller == callerOf(dict, caller)
			}
		}
	}
	for i, stack := range s.stacks[:s.n] {
		if onWay[i] && code.AttemptOf(dict, stack) == 0 {
			l.onWay += s.held[i]
		}
	}
}

// doubt is a stack of a Stay, the one at index at, whose innermost frame is uncertain. frame is this frame as it would
// be if it were certain.
type doubt struct {
	at     int
	caller sampler.StackID
	frame  sampler.Frame
}

// doubtsOf returns the stacks of s whose innermost frame is uncertain. On Ruby 2.5 to 2.7, many stacks of a thread that
// runs are like this.
func doubtsOf(dict *sampler.Dictionary, s *Stay) (list []doubt) {
	for i, stack := range s.stacks[:s.n] {
		caller, id := dict.Stack(stack)
		if frame := dict.Frame(id); frame.Uncertain {
			frame.Uncertain, frame.UncertainLine = false, false
			list = append(list, doubt{i, caller, frame})
		}
	}
	return list
}

func callerOf(dict *sampler.Dictionary, stack sampler.StackID) sampler.StackID {
	caller, _ := dict.Stack(stack)
	return caller
}

// Only reports whether the sampled threads spin: they make nothing but attempts, which are calls that only wait or try
// something. lacking is true if the threads mostly lack a CPU. In this case a thread that wakes up in an attempt waits
// there for a CPU, so samples show attempts too often. So a larger share of samples must then be in attempts.
func (l *Samples) Only(lacking bool) bool {
	share, n := tried, l.tried+l.onWay
	if lacking {
		share += late
	}
	const copies = code.AttemptRead | code.AttemptWrite
	switch {
	case l.Attempts == 0 || l.Attempts&copies == copies:
		return false
	case l.Attempts&(code.AttemptPause|code.AttemptAsk) == 0:
		share, n = blindly, l.tried
	case l.Attempts == code.AttemptAsk:
		share = asked
	}
	held := float64(l.held)
	return l.held >= looks && float64(l.tried) >= least*held && float64(n) >= share*held+math.Sqrt(held)/4
}
