package gvl

import "github.com/ddtop/ddtop/internal/units"

// Waits that the program itself asks for: for programs that it starts, and for a time to pass.

// inChild reports whether a thread in input or output waits for a program that it started: for its end, or for what it prints.
func inChild(s State, d *Detail, flags stackFlags) bool {
	return s == IO && (d.Op == OpChild || flags&flagChild != 0)
}

// sleepsAtWork reports whether a thread of a server's pool sleeps in the middle of a request or a job.
func sleepsAtWork(s State, flags stackFlags) bool {
	return s == Sleeping && flags&(flagServer|flagIdle|flagPool) == flagServer
}

// evalChild: threads wait for other programs.
func evalChild(w *window) hit {
	workers, long := 0, 0
	ns := w.ops[1]
	ids, longest := w.waiting(func(ts *ThreadState, x *watch) bool {
		// The thread of Process.detach has no frame: all that it is for is to wait.
		if !inChild(ts.State, &ts.Detail, x.flags) || ts.Stack == 0 || w.isMain(ts.Thread) {
			return false
		}
		is := ts.Detail.Op == OpChild && ts.DurationNS() >= int64(w.limits.childWait)
		if is {
			long++
		}
		switch t := w.threads[ts.Thread]; {
		case !consumer(x):
			if is {
				workers++
			}
			return true
		case t != nil:
			ns -= t.ns[IO] // a supervisor: its time in the window was all spent there
		}
		return is
	})
	share := w.ofBusy(ns) / w.limits.childShare
	h := hit{
		score: max(float64(long)/w.limits.childThreads, least(float64(workers), w.ofBusy(w.ops[1])/w.limits.childShare),
			least(share, w.share(ns)/w.limits.childMean, float64(w.sampledNS)/raiseNS)),
		severity: SeverityWarn, threads: ids,
	}
	if h.score < 1 {
		return h
	}
	h.explains = w.ops[1]
	h.title = "Waiting for other programs"
	h.text = units.RoundPercent(w.ofBusy(w.ops[1])) + " of the busy time waits for child processes"
	if len(ids) > 0 {
		h.text = units.Plural(len(ids), "thread waits", "threads wait") + " for child processes, the longest for "
		ts := w.state(ids[0])
		if x := w.watch(ids[0]); !consumer(x) && ts.DurationNS() > ts.stillNS {
			h.text += "≤ " // it may have begun another one since
		}
		h.text += units.ProseDuration(longest)
		h.stack = ts.Stack
		if ts.Detail.Child > 0 {
			h.text += " (pid " + itoa(int64(ts.Detail.Child)) + ")"
		}
		if code := w.place(ts.Stack); code != "" {
			h.text += " in " + code
		}
		if share >= 1 {
			h.text += "; " + units.RoundPercent(w.ofBusy(w.ops[1])) + " of the busy time"
		}
	}
	h.next = "look at the child process; give it a timeout, or start it from a job"
	return h
}

// evalSleep: a server's workers sleep instead of working.
func evalSleep(w *window) hit {
	ns := w.flag(flagServer)
	ids, longest := w.waiting(func(ts *ThreadState, x *watch) bool { return sleepsAtWork(ts.State, x.flags) })
	h := hit{
		score: least(w.ofBusy(ns)/w.limits.sleepShare, w.share(ns)/w.limits.sleepThreads,
			float64(w.callLength(groupSleep))/w.limits.sleepLength),
		severity: SeverityWarn, threads: ids,
	}
	if h.score < 1 {
		return h
	}
	h.explains = ns
	h.title = "Work sleeps"
	h.text = "requests or jobs spend " + units.RoundPercent(w.ofBusy(ns)) + " of the busy time in sleep"
	if len(ids) > 0 {
		ts := w.state(ids[0])
		h.stack = ts.Stack
		h.text += "; now " + units.Plural(len(ids), "thread", "threads") + ", the longest for " + units.ProseDuration(longest)
		if code := w.place(ts.Stack); code != "" {
			h.text += " in " + code
		}
	}
	h.next = "a worker that sleeps serves nobody: try again from a job, or fail at once"
	return h
}
