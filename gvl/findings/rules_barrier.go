package findings

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// ruleBarrier is the rule for ractors that wait because one thread does not stop. For example, all threads must stop
// for the garbage collector.
const ruleBarrier = "barrier_stuck"

// evalBarrier matches if all ractors must stop, as before a collection, but one thread keeps running.
func evalBarrier(w *window) hit {
	var h hit
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil || x.barrier.NS() == 0 {
			continue
		}
		score := float64(x.barrier.NS()) / w.limits.barrierTime
		if score <= h.score {
			continue
		}
		h = hit{score: score, severity: SeverityCrit, threads: []sampler.ThreadID{ts.Thread}, stack: x.stack}
	}
	if h.score >= 1 {
		barrierText(w, &h)
	}
	return h
}

// barrierText describes which thread does not stop, for how long, and how many ractors wait for it.
func barrierText(w *window, h *hit) {
	id := h.threads[0]
	ns := w.watch(id).barrier.NS()
	waiting := make(map[sampler.RactorID]bool)
	for i := range w.states {
		if ts := &w.states[i]; w.s.Threads[i].Bits&sampler.BitBarrier != 0 && ts.State == gvl.Waiting {
			waiting[ts.Ractor] = true
			h.threads = append(h.threads, ts.Thread)
		}
	}
	h.explains = min(ns*int64(max(len(waiting), 1)), w.sampledNS*int64(len(w.states)))
	h.title = "Ractors wait for one"
	who := units.Plural(len(waiting), "ractor "+tense("has", "had"), "ractors "+tense("have", "had"))
	if len(waiting) == 0 {
		who = "a ractor " + tense("has", "had")
	}
	h.text = who + " stood still for " + units.ProseDuration(ns) + ", because a collection or the like begins only when all ractors have stopped; " +
		w.name(id) + " " + tense("does", "did") + " not stop" + w.in(h.stack)
	h.next = "split this call, or move it to a process of its own: C code that does not check for interrupts keeps all ractors waiting"
}
