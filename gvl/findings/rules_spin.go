package findings

import (
	"math"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// ruleSpins is the rule of threads that ask for something, or wait for it, again and again without a pause.
const ruleSpins = "spinning"

const (
	// maxSpinStacks bounds the stacks of a thread that spins. A thread with more of them does something.
	maxSpinStacks = 12
	// spinTried is the part of the samples with the GVL in which a thread that spins waits, tries, or is on the way to
	// it. spinAsked is that part if it only asks. spinBlindly is the part in the attempts alone if it only reads or
	// writes, which can move data, too. spinLeast is the least part in the attempts themselves.
	spinTried, spinAsked, spinBlindly, spinLeast = .6, .5, .8, .1
	// spinLooks is the least number of samples with the GVL, of all threads that spin together.
	spinLooks = 8
	// spinWakes is the least number of wake-ups per second of a thread that pauses.
	spinWakes = 200
	// spinLeastCPU is the least part of a CPU of a thread that counts without so many wake-ups.
	spinLeastCPU = .05
)

// spinReading is a reading of a thread's counters. readyNS is its CPU time and its time without a CPU.
type spinReading struct{ atNS, turns, cpuNS, readyNS int64 }

// spin is the time since when a thread has been at a few places only.
type spin struct {
	stacks [maxSpinStacks]sampler.StackID
	n      int
	// sinceNS is its begin. held counts the samples with the GVL at each stack.
	sinceNS int64
	held    [maxSpinStacks]int64
	// The thread's counters at the first and the last reading.
	first, last spinReading
}

// look adds a sample of a thread, whose stack was read.
func (s *spin) look(t *sampler.Thread, ts *gvl.ThreadState) {
	const bits = sampler.StackFresh | sampler.StackFailed | sampler.StackPartial
	if ts.Stack == 0 || t.Quality&bits != sampler.StackFresh {
		return
	}
	i := slices.Index(s.stacks[:s.n], ts.Stack)
	if i < 0 {
		if s.n == maxSpinStacks || s.n == 0 {
			*s = spin{sinceNS: ts.AtNS}
		}
		i = s.n
		s.stacks[i] = ts.Stack
		s.n++
	}
	if ts.State == gvl.Running || ts.State == gvl.Native {
		s.held[i]++
	}
	if k := &t.Kernel; k.CPUAtNS >= s.sinceNS {
		s.last = spinReading{k.CPUAtNS, k.Turns, k.CPUNS, k.CPUNS + k.RunDelayNS}
		if s.first.atNS == 0 {
			s.first = s.last
		}
	}
}

// rates returns a thread's wake-ups per second, the CPUs that it takes, and those that it takes or is ready to take.
func (s *spin) rates() (wakes, cpu, ready float64) {
	span := max(s.last.atNS-s.first.atNS, 1)
	wakes = float64(s.last.turns-s.first.turns) * 1e9 / float64(span)
	return wakes, gvl.Ratio(s.last.cpuNS-s.first.cpuNS, span), gvl.Ratio(s.last.readyNS-s.first.readyNS, span)
}

// spinLooked are the samples with the GVL of threads that may spin: all, the ones in an attempt, and the ones in the
// frames that called it, at the lines of those calls.
type spinLooked struct {
	held, tried, onWay int64
	attempts           code.Attempt
}

// add adds the samples of one thread.
func (l *spinLooked) add(dict *sampler.Dictionary, s *spin) {
	var onWay [maxSpinStacks]bool
	for i, stack := range s.stacks[:s.n] {
		a := code.AttemptOf(dict, stack)
		l.held += s.held[i]
		if a == 0 || s.held[i] == 0 {
			continue
		}
		l.tried += s.held[i]
		l.attempts |= a
		for caller := range code.Frames(dict, stack, code.MaxFrames) {
			if j := slices.Index(s.stacks[:s.n], caller); j >= 0 {
				onWay[j] = true
			}
		}
	}
	for i, stack := range s.stacks[:s.n] {
		if onWay[i] && code.AttemptOf(dict, stack) == 0 {
			l.onWay += s.held[i]
		}
	}
}

// only reports whether the samples are of threads that only try.
func (l *spinLooked) only() bool {
	least, tried := spinTried, l.tried+l.onWay
	const copies = code.AttemptRead | code.AttemptWrite
	switch {
	case l.attempts == 0 || l.attempts&copies == copies:
		return false
	case l.attempts&(code.AttemptPause|code.AttemptAsk) == 0:
		least, tried = spinBlindly, l.tried
	case l.attempts == code.AttemptAsk:
		least = spinAsked
	}
	n := float64(l.held)
	return l.held >= spinLooks && float64(l.tried) >= spinLeast*n && float64(tried) >= least*n+math.Sqrt(n)/4
}

// spinners are the threads that spin in the methods of one outermost method.
type spinners struct {
	ids        []sampler.ThreadID
	wakes, cpu float64
	// mostReady is the greatest part of its time that one of them is ready for a CPU or has one.
	mostReady float64
	ageNS     int64
	looked    spinLooked
}

// add adds a thread, whose counters were read over spanNS.
func (g *spinners) add(dict *sampler.Dictionary, id sampler.ThreadID, s *spin, spanNS int64) {
	wakes, cpu, ready := s.rates()
	g.ids = append(g.ids, id)
	g.wakes, g.cpu = g.wakes+wakes, g.cpu+cpu
	g.ageNS = max(g.ageNS, spanNS)
	g.looked.add(dict, s)
	if ready > g.mostReady {
		g.mostReady = ready
		g.ids[0], g.ids[len(g.ids)-1] = g.ids[len(g.ids)-1], g.ids[0]
	}
}

// evalSpins: threads wait for something, or try it, again and again, and nothing comes of it.
func evalSpins(w *window) hit {
	groups := make(map[string]*spinners)
	for i := range w.states {
		x := w.watch(w.states[i].Thread)
		if x == nil || x.spin.n == 0 {
			continue
		}
		spanNS := x.spin.last.atNS - x.spin.first.atNS
		wakes, _, ready := x.spin.rates()
		if float64(spanNS) < w.limits.spinTime*ClearShare || wakes < spinWakes && ready < spinLeastCPU {
			continue
		}
		root := code.Root(w.dict, x.spin.stacks[0])
		if groups[root] == nil {
			groups[root] = new(spinners)
		}
		groups[root].add(w.dict, w.states[i].Thread, &x.spin, spanNS)
	}
	var h hit
	for _, g := range groups {
		// Threads that sleep and are late on a full machine are ready for a part of their time each, and a whole CPU together.
		busy := max(g.wakes/w.limits.spinWakes, max(g.cpu, g.mostReady)/w.limits.spinCPU)
		score := least(float64(g.ageNS)/w.limits.spinTime, busy)
		if score <= h.score || !g.looked.only() {
			continue
		}
		h = hit{score: score, severity: SeverityWarn, threads: g.ids}
		if score >= 1 {
			w.spinText(&h, g)
		}
	}
	return h
}

// spinText says where threads spin, how often they wake, and what that costs.
func (w *window) spinText(h *hit, g *spinners) {
	h.explains = int64(g.cpu * float64(w.sampledNS))
	h.stack = w.watch(g.ids[0]).spin.stacks[0]
	h.title = "Spins without progress"
	place := w.name(g.ids[0]) + w.in(h.stack)
	figures := itoa(int64(g.wakes)) + " times per second and "
	cpu := " " + units.RoundPercent(g.cpu) + " of a CPU"
	age := units.ProseDuration(g.ageNS)
	if n := len(g.ids); n > 1 {
		h.text = itoa(int64(n)) + " threads " + tense("have been", "were") + " at one place each for " + age + ", " +
			place + "; they " + tense("wake", "woke") + " " + figures + tense("take", "took") + cpu
	} else {
		h.text = w.name(g.ids[0]) + " " + tense("has been", "was") + " at one place for " + age + w.in(h.stack) +
			"; it " +
			tense("wakes", "woke") + " " + figures + tense("takes", "took") + cpu
	}
	h.next = "wait for the event itself (Queue#pop, ConditionVariable, Thread#join, IO.select), or sleep for longer"
	if g.looked.attempts&code.AttemptWrite != 0 {
		h.next = "stop the retries: wait until the descriptor is writable, and close it when the write fails"
	}
}
