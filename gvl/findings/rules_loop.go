package findings

import (
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// ruleLoopBlocked is the rule for a fiber that keeps its thread's other fibers from running.
const ruleLoopBlocked = "loop_blocked"

// evalLoopBlocked matches if a fiber computes or blocks for long while the other fibers of its thread wait. It also
// matches if several fibers do this one after another.
func evalLoopBlocked(w *window) hit {
	var h hit
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil {
			continue
		}
		behind := w.fibersOf(ts.Thread)
		if one := loopKept(w, ts, x, behind); one.score > h.score {
			h = one
		}
		if turns := loopKeptInTurn(w, ts.Thread, x, behind); turns.score > h.score && h.score < 1 {
			h = turns
		}
	}
	if h.score >= 1 {
		h.title = "Event loop blocked"
		h.next = "move this work to a thread or a process, or split it: other fibers run only while this one waits " +
			"through the scheduler"
	}
	return h
}

// loopKept returns the hit about one fiber that blocks a thread's event loop. behind is the number of waiting fibers.
func loopKept(w *window, ts *gvl.ThreadState, x *watch, behind int) (h hit) {
	ns := x.loop.NS()
	if ns == 0 || x.flags&stackkind.Require != 0 || waitsForEvents(ts) {
		return h
	}
	h = hit{
		score:    least(float64(ns)/w.limits.loopTime, float64(behind)/w.limits.loopFibers),
		severity: SeverityWarn, stack: x.stack, threads: []sampler.ThreadID{ts.Thread}, explains: min(ns, w.sampledNS),
	}
	if h.score < 1 {
		return h
	}
	h.text = w.name(ts.Thread) + " " + tense("has run", "ran") + " one fiber for " + units.ProseDuration(ns) +
		w.in(x.stack)
	w.serves(&h, ts.Thread)
	if !ts.State.Held() && ts.State != gvl.Waiting {
		h.text += ": " + gvl.Describe(*ts, w.dict)
	}
	h.text += "; " + w.fibersBehind(behind)
	return h
}

// loopTurns is the least number of long runs of fibers in the window for which loopKeptInTurn returns a hit. If there
// are fewer, loopKept judges each run alone.
const loopTurns = 3

// loopKeptInTurn returns the hit about fibers that block a thread's event loop one after another.
func loopKeptInTurn(w *window, id sampler.ThreadID, x *watch, behind int) hit {
	n, ns, longest := x.loop.Long(w.nowNS - findingsWindowNS)
	if n < loopTurns {
		return hit{}
	}
	h := hit{
		score: least(float64(n)/loopTurns, gvl.Ratio(ns, findingsWindowNS)/w.limits.loopShare,
			float64(behind)/w.limits.loopFibers),
		severity: SeverityWarn, stack: longest.Stack, threads: []sampler.ThreadID{id}, explains: min(ns, w.sampledNS),
	}
	if h.score < 1 || w.ev.classes.Of(longest.Stack)&stackkind.Require != 0 {
		return hit{score: min(h.score, ClearShare)}
	}
	h.text = w.name(id) + " ran fibers for long, " + itoa(int64(n)) + " times in the last " +
		units.ProseDuration(findingsWindowNS) + " and " + units.RoundPercent(gvl.Ratio(ns, findingsWindowNS)) +
		" of the time, the longest for " + units.ProseDuration(longest.ToNS-longest.FromNS) + w.in(longest.Stack)
	w.serves(&h, id)
	h.text += "; " + w.fibersBehind(behind)
	return h
}

// fibersBehind returns a text about how many other fibers of the thread cannot run.
func (w *moment) fibersBehind(n int) string {
	return units.Plural(n, "other fiber", "other fibers") + " of the thread " + tense("cannot run", "could not run") +
		" meanwhile"
}

// waitsForEvents reports whether a thread waits for events in select, poll or epoll, as an event loop does. The loop
// may run in any fiber of the thread.
func waitsForEvents(ts *gvl.ThreadState) bool {
	d := &ts.Detail
	return ts.State == gvl.IO &&
		(d.Op == gvl.OpSelect || d.Op == gvl.OpPoll && d.FDs != 1 || strings.HasPrefix(d.Syscall, "epoll_"))
}

// fibersOf returns how many fibers of a thread wait. It is zero if ddtop did not read the fibers.
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
