package findings

import (
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/loop"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// ruleLoopBlocked is the rule of a fiber that keeps its thread's other fibers from running.
const ruleLoopBlocked = "loop_blocked"

const loopAdvice = "move this work to a thread or a process, or split it: other fibers run only while this one waits " +
	"through the scheduler"

// evalLoopBlocked: a fiber computes or blocks, and the thread's other fibers wait.
func evalLoopBlocked(w *window) hit {
	var h hit
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil || x.flags&stackkind.Require != 0 {
			continue
		}
		if o := w.oftenBlocked(ts, x); o.score > h.score {
			h = o
		}
		if x.loop.NS() == 0 || waitsForEvents(ts) {
			continue
		}
		ns, behind := x.loop.NS(), w.fibersOf(ts.Thread)
		score := least(float64(ns)/w.limits.loopTime, float64(behind)/w.limits.loopFibers)
		if score <= h.score {
			continue
		}
		h = hit{score: score, severity: SeverityWarn, stack: x.stack, threads: []sampler.ThreadID{ts.Thread}}
		if score >= 1 {
			h.explains = min(ns, w.sampledNS)
			h.title = "Event loop blocked"
			h.text = w.name(ts.Thread) + " " + tense("has run", "ran") + " one fiber for " + units.ProseDuration(ns) +
				w.in(x.stack)
			w.serves(&h, ts.Thread)
			if !ts.State.Held() && ts.State != gvl.Waiting {
				h.text += ": " + gvl.Describe(*ts, w.dict)
			}
			h.text += "; " + units.Plural(behind, "other fiber", "other fibers") + " of the thread " +
				tense("cannot run", "could not run")
			h.next = loopAdvice
		}
	}
	return h
}

// oftenBlocked: fibers compute or block again and again, so that the thread's other fibers wait most of the time.
func (w *window) oftenBlocked(ts *gvl.ThreadState, x *watch) hit {
	sum, longest, n, stack := x.loop.Often()
	behind := w.fibersOf(ts.Thread)
	score := least(float64(sum)/w.limits.loopOften, float64(behind)/w.limits.loopFibers)
	if n == 0 || score < 1 {
		return hit{}
	}
	h := hit{score: score, severity: SeverityWarn, stack: stack, threads: []sampler.ThreadID{ts.Thread}}
	h.explains = min(sum, w.sampledNS)
	h.title = "Event loop blocked"
	h.text = w.name(ts.Thread) + " " + tense("has run", "ran") + " single fibers for " + units.ProseDuration(sum) + " of the last " +
		units.ProseDuration(loop.OverNS) + ", up to " + units.ProseDuration(longest) + " each, last" + w.in(stack) +
		"; up to " + units.Plural(behind, "other fiber", "other fibers") + " of the thread " + tense("wait", "waited") + " meanwhile"
	h.next = loopAdvice
	return h
}

// waitsForEvents reports whether a thread waits like an event loop. A fiber other than the first one can have a loop,
// too.
func waitsForEvents(ts *gvl.ThreadState) bool {
	d := &ts.Detail
	return ts.State == gvl.IO &&
		(d.Op == gvl.OpSelect || d.Op == gvl.OpPoll && d.FDs != 1 || strings.HasPrefix(d.Syscall, "epoll_"))
}

// fibersOf returns how many fibers of a thread wait. It is zero if that is not known.
func (w *moment) fibersOf(id sampler.ThreadID) (n int) {
	if w.s.Fibers == nil {
		return 0
	}
	for i := range w.s.Fibers.List {
		if f := &w.s.Fibers.List[i]; f.Thread == id && !f.Created {
			n++
		}
	}
	return n
}
