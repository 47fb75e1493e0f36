package findings

import (
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/spin"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// ruleSpins is the rule for spinning threads: they try something again and again, without success and without a pause.
const ruleSpins = "spinning"

const (
	// spinWakes is the least number of wake-ups per second with which a thread that also sleeps counts as spinning.
	spinWakes = 200
	// spinLeastCPU is a share of a CPU. A thread that uses at least this much counts as spinning even with fewer
	// wake-ups.
	spinLeastCPU = .05
)

// spinners are spinning threads with the same outermost method. wakes, cpu and ready are the sums of their Rates.
type spinners struct {
	ids               []sampler.ThreadID
	wakes, cpu, ready float64
	// mostReady is the largest share of the time for which one of the threads had a CPU or was ready to run.
	mostReady float64
	ageNS     int64
	looked    spin.Samples
}

// add adds a thread whose counters were read over spanNS. The first thread in ids is always the thread with the share
// mostReady.
func (g *spinners) add(dict *sampler.Dictionary, id sampler.ThreadID, s *spin.Stay, spanNS int64) {
	wakes, cpu, ready := s.Rates()
	g.ids = append(g.ids, id)
	g.wakes, g.cpu, g.ready = g.wakes+wakes, g.cpu+cpu, g.ready+ready
	g.ageNS = max(g.ageNS, spanNS)
	g.looked.Add(dict, s)
	if ready > g.mostReady {
		g.mostReady = ready
		g.ids[0], g.ids[len(g.ids)-1] = g.ids[len(g.ids)-1], g.ids[0]
	}
}

// evalSpins matches if threads wait for something, or try it, again and again without success.
func evalSpins(w *window) hit {
	groups := make(map[string]*spinners)
	for i := range w.states {
		x := w.watch(w.states[i].Thread)
		if x == nil || x.spin.Place() == 0 {
			continue
		}
		spanNS := x.spin.SpanNS()
		wakes, _, ready := x.spin.Rates()
		if float64(spanNS) < w.limits.spinTime*ClearShare || wakes < spinWakes && ready < spinLeastCPU {
			continue
		}
		root := code.Root(w.dict, x.spin.Place())
		if groups[root] == nil {
			groups[root] = new(spinners)
		}
		groups[root].add(w.dict, w.states[i].Thread, &x.spin, spanNS)
	}
	var h hit
	for _, g := range groups {
		// Use mostReady, the largest share of a single thread, and not the sum over all threads. On a busy machine,
		// many sleeping threads are each ready for a short time, and the sum would look like spinning.
		busy := max(g.wakes/w.limits.spinWakes, max(g.cpu, g.mostReady)/w.limits.spinCPU)
		score := least(float64(g.ageNS)/w.limits.spinTime, busy)
		if score <= h.score || !g.looked.Only(g.cpu < g.ready/4) {
			continue
		}
		h = hit{score: score, severity: SeverityWarn, threads: g.ids}
		if score >= 1 {
			w.spinText(&h, g)
		}
	}
	return h
}

// spinText describes where threads spin, how often they wake, and how much CPU this costs.
func (w *window) spinText(h *hit, g *spinners) {
	h.explains = int64(g.cpu * float64(w.sampledNS))
	h.stack = w.watch(g.ids[0]).spin.Place()
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
	if g.looked.Attempts&code.AttemptWrite != 0 {
		h.next = "stop the retries: wait until the descriptor is writable, and close it when the write fails"
	}
}
