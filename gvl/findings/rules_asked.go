package findings

import (
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/resting"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// The rules in this file are about waits that the program's code itself asks for: for a child process, for a time, or
// for a thread.

// inChild reports whether a thread in I/O waits for a child process: for its end or its output.
func inChild(s gvl.State, d *gvl.Detail, flags stackkind.Flags) bool {
	return s == gvl.IO && (d.Op == gvl.OpChild || flags&stackkind.Child != 0)
}

// evalChild matches if threads wait for child processes.
func evalChild(w *window) hit {
	workers, long, reading := 0, 0, 0
	ns := w.ops[opChildren]
	ids, longest := w.waiting(func(ts *gvl.ThreadState, x *watch) bool {
		if !inChild(ts.State, &ts.Detail, x.flags) {
			return false
		}
		// Process.detach starts a thread without a frame. This thread only waits for the child, so leave it out.
		if ts.Stack == 0 || w.isMain(ts.Thread) {
			if t := w.threads[ts.Thread]; t != nil {
				ns -= t.ns[gvl.IO]
			}
			return false
		}
		is := ts.Detail.Op == gvl.OpChild && ts.DurationNS() >= int64(w.limits.childWait)
		if is {
			long++
		}
		switch t := w.threads[ts.Thread]; {
		// a thread that reads a child's output is not the thread of a supervisor
		case x.flags&stackkind.Child != 0 || !consumer(x):
			reading++
			if is {
				workers++
			}
			return true
		case t != nil:
			// leave out the thread of a supervisor, which spends all its I/O time waiting for children
			ns -= t.ns[gvl.IO]
		}
		return is
	})
	share := w.ofBusy(ns) / w.limits.childShare
	h := hit{
		score: max(float64(long)/w.limits.childThreads, least(float64(workers), w.ofBusy(w.ops[opChildren])/w.limits.childShare),
			// At least one thread must be waiting now. The time alone is not enough, because the threads that waited
			// may have stopped waiting.
			least(float64(reading), share, w.share(ns)/w.limits.childMean, float64(w.sampledNS)/raiseNS)),
		severity: SeverityWarn, threads: ids,
	}
	if h.score < 1 {
		return h
	}
	h.explains = w.ops[opChildren]
	h.title = "Waiting for other programs"
	h.text = units.RoundPercent(w.ofBusy(w.ops[opChildren])) + " of the busy time " + tenseWaits + " for child processes"
	if len(ids) > 0 {
		h.text = units.Plural(len(ids), "thread "+tenseWaits, "threads "+tenseWait) + " for child processes, the longest for "
		ts := w.state(ids[0])
		told := gvl.Bounded{NS: longest}
		// The samples may show one long wait although there were two: an earlier wait that ended, and the present wait.
		if x := w.watch(ids[0]); (x.flags&stackkind.Child != 0 || !consumer(x)) && ts.DurationNS() > ts.StillNS {
			if told = (gvl.Bounded{NS: ts.StillNS, Bound: gvl.AtLeast}); ts.StillNS == 0 {
				told = gvl.Bounded{NS: longest, Bound: gvl.AtMost}
			}
		}
		h.text += told.Prose()
		h.stack = ts.Stack
		if ts.Detail.Child > 0 {
			h.text += " (pid " + itoa(int64(ts.Detail.Child)) + ")"
		}
		h.text += w.in(ts.Stack)
		if share >= 1 {
			h.text += "; " + units.RoundPercent(w.ofBusy(w.ops[opChildren])) + " of the busy time"
		}
	}
	h.next = "look at the child process; give it a timeout, or start it from a job"
	return h
}

// evalSleep matches if requests or jobs sleep for a large part of their time.
func evalSleep(w *window) hit {
	ns := w.resting[gvl.Sleeping]
	ids, _ := w.waiting(func(ts *gvl.ThreadState, x *watch) bool {
		return ts.State == gvl.Sleeping && resting.AtWork(gvl.Sleeping, x.flags)
	})
	h := hit{
		score: least(w.ofBusy(ns)/w.limits.sleepShare, w.share(ns)/w.limits.sleepThreads,
			float64(w.callLength(groupSleep))/w.limits.sleepLength),
		severity: SeverityWarn, threads: ids,
	}
	if h.score < 1 {
		return h
	}
	h.explains = ns
	h.title = "Work " + tense("sleeps", "slept")
	h.text = "requests or jobs " + tenseSpend + " " + units.RoundPercent(w.ofBusy(ns)) + " of the busy time in sleep"
	if len(ids) > 0 {
		ts := w.state(ids[0])
		h.stack = ts.Stack
		h.text += "; " + tenseNow + " " + units.Plural(len(ids), "thread", "threads") + "" + w.longestText(", the longest for ", ids) + w.in(ts.Stack)
		w.serves(&h, ids[0])
	}
	h.next = "retry from a job, or fail at once: a worker that sleeps serves no request"
	return h
}

// evalThreadWait matches if requests or jobs wait for other threads for a large part of their time.
func evalThreadWait(w *window) hit {
	ns := w.resting[gvl.Parked]
	ids, _ := w.waiting(func(ts *gvl.ThreadState, x *watch) bool {
		return ts.State == gvl.Parked && x.gate == nil && resting.AtWork(gvl.Parked, x.flags)
	})
	h := hit{
		score:    least(w.ofBusy(ns)/w.limits.parkShare, w.share(ns)/w.limits.parkThreads),
		severity: SeverityWarn, threads: ids,
	}
	if h.score < 1 {
		return h
	}
	if w.longPolls(ids) {
		return hit{}
	}
	h.explains = ns
	h.title = "Work " + tenseWaits + " for threads"
	h.text = "requests or jobs " + tenseSpend + " " + units.RoundPercent(w.ofBusy(ns)) + " of the busy time waiting "
	h.next = "see what the other thread does; let a request wait only for what its answer needs"
	if len(ids) == 0 {
		h.text += "for another thread"
		return h
	}
	ts := w.state(ids[0])
	h.stack = ts.Stack
	full := strings.HasSuffix(code.Innermost(w.dict, ts.Stack), "SizedQueue#push")
	if full {
		h.text += "at a full queue"
	} else {
		h.text += "for another thread"
	}
	h.text += "; " + tenseNow + " " + units.Plural(len(ids), "thread", "threads") + "" + w.longestText(", the longest for ", ids) + w.in(ts.Stack)
	if gone := w.noTaker(ts); full && gone != "" {
		h.severity, h.title = SeverityCrit, "No thread empties queue"
		h.text = gone + "; " + h.text
		h.next = "start the thread that takes from the queue in this process: a fork copies no threads (on_worker_boot)"
	} else if full {
		h.text += ": " + w.taker(ts)
		h.next = "see what takes from the queue and why it is slower, or whether it still runs; start it after a fork " +
			"(on_worker_boot), because a fork copies no threads"
	}
	return h
}

// longPolls reports whether all given threads do long polling: they wait for news from another thread, with a time
// limit. This does no harm if a worker of the server is free for the next request.
func (w *moment) longPolls(ids []sampler.ThreadID) bool {
	for _, id := range ids {
		if !w.watch(id).timed {
			return false
		}
	}
	return len(ids) > 0 && slices.ContainsFunc(w.states, func(ts gvl.ThreadState) bool {
		x := w.watch(ts.Thread)
		return x != nil && x.idle && x.flags&stackkind.Server != 0
	})
}

// noTaker returns a text if no thread can empty the full queue at which a thread is stuck. The parameter waits is the
// state of this thread. No thread can empty the queue if all other threads serve requests, are stuck at the same queue,
// or run no code of the program. Otherwise noTaker returns "".
func (w *moment) noTaker(waits *gvl.ThreadState) string {
	calls := code.Calls(w.dict, waits.Stack)
	if !calls.Own() {
		return ""
	}
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil || ts.Detail.Object == waits.Detail.Object || x.flags.Serves() || x.flags&stackkind.Server != 0 {
			continue
		}
		joins := w.isMain(ts.Thread) && ts.State == gvl.Parked && ts.Detail.Joined != 0
		if x.stack == 0 || !joins && code.HasOwn(w.dict, x.stack) {
			return ""
		}
	}
	text := "no thread of this process " + tense("takes", "took") + " from the full queue of " + code.Method(calls.Label)
	if id, seen := w.ev.takers[waits.Detail.Object]; seen {
		return text + ", the one that did (" + w.name(id) + ") " + tense("has", "had") + " ended"
	}
	if p := w.ev.proc.Parent; p > 1 && strings.HasPrefix(w.ev.proc.Part, "w") {
		text += ": process " + itoa(int64(p)) + " forked it, and a fork copies no other threads"
	}
	return text
}

// taker describes the thread that takes from a queue, and what it does now. waits is the thread that puts into the
// queue. The taker was seen waiting at this queue, or it is the only thread with code of the same class (soleIn).
func (w *moment) taker(waits *gvl.ThreadState) string {
	id, seen := w.ev.takers[waits.Detail.Object]
	words := " takes from it and " + tenseIs + " "
	if !seen || w.state(id) == nil {
		class := code.Owner(code.Calls(w.dict, waits.Stack).Label)
		if id = w.soleIn(class, waits); id == 0 {
			if p := w.ev.proc.Parent; p > 1 && strings.HasPrefix(w.ev.proc.Part, "w") {
				return "no thread of this process was seen taking from it; process " + itoa(int64(p)) +
					" forked it, and a fork copies no other threads: the one that takes from it may be missing here"
			}
			return "no thread was seen taking from it"
		}
		words = ", the other thread in " + class + ", " + tenseIs + " "
	}
	ts := w.state(id)
	return w.name(id) + words + holderDoes(ts) + w.in(w.watch(id).stack)
}

// soleIn returns the only thread with a method of the class on its stack. It ignores threads in requests and jobs, and
// threads that wait at the same queue as the thread with the state waits. The result is zero if no thread, or more than
// one, remains.
func (w *moment) soleIn(class string, waits *gvl.ThreadState) sampler.ThreadID {
	var found sampler.ThreadID
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if class == "" || x == nil || x.flags.Serves() || ts.Detail.Object == waits.Detail.Object {
			continue
		}
		for _, f := range code.Frames(w.dict, x.stack, code.MaxFrames) {
			if !f.C && code.Owner(f.Label) == class {
				if found != 0 {
					return 0
				}
				found = ts.Thread
				break
			}
		}
	}
	return found
}
