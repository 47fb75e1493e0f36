package findings

import (
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// ruleEnding is the rule for a program that was asked to end, or has run all its code, and does not end.
const ruleEnding = "ending"

// ending is the kind of code by which a thread shows that the program ends, such as an at_exit hook.
type ending uint8

const (
	endingNot ending = iota
	// endingWaits means that the main thread has run all its code, and waits for the other threads.
	endingWaits
	// endingLast means that all Ruby threads have ended, and the process still runs C code.
	endingLast
	// endingServer means that a server or job runner waits for the work in progress.
	endingServer
	// endingUnwinds means that exit or a signal has raised an exception, and the main thread still handles it.
	endingUnwinds
	// endingHook means that an at_exit hook or a finalizer runs at the program's end.
	endingHook
	// endingHandler means that the main thread waits in code that interrupted it: a signal's handler or a finalizer.
	endingHandler
)

// exits are the exceptions that end a program, raised by exit, by a signal without a handler, and by ctrl-c.
var exits = []string{"SystemExit", "SignalException", "Interrupt"}

// exits reports whether a thread handles an exception that ends the program: one of the list exits.
func (c *collector) exits(exception sampler.TextID) bool {
	if exception == 0 || c.dict == nil {
		return false
	}
	class, _, _ := strings.Cut(c.dict.Exception(exception), ":")
	return slices.Contains(exits, class)
}

// endingOf returns by which kind of code a thread shows that the program ends.
func (c *collector) endingOf(t *sampler.Thread, ts *gvl.ThreadState, flags stackkind.Flags) ending {
	switch {
	case ts.Detail.Reason == gvl.ReasonWaitsForEnd:
		return endingWaits
	case ts.Detail.Reason == gvl.ReasonEnding:
		return endingLast
	case flags&stackkind.Ending != 0:
		return endingServer
	case t.Bits&sampler.BitMain != 0 && c.exits(t.Serving.Exception):
		return endingUnwinds
	case ts.Detail.Within == gvl.WithinEnd:
		return endingHook
	case ts.Detail.Within == gvl.WithinInterrupt:
		return endingHandler
	}
	return endingNot
}

// ends notes by which kind of code the thread shows that the program is ending, and the time since which it has shown
// this kind.
func (w *watch) ends(e ending, at, bootNS int64) {
	if e != w.ending {
		w.ending, w.endingNS = e, at
	}
	if e == endingNot && at >= bootNS {
		w.courseNS = at
	}
}

// runners are beginnings of method names. A program with such a method does all of its work in an at_exit hook.
var runners = []string{"Minitest.", "Test::Unit::", "RSpec::Core::", "Sinatra::", "Rack::Handler::",
	"Rackup::", "Cucumber::"}

// unseenCourse is a factor for the threshold of a hook at the program's end. It applies if ddtop did not see the
// program run before the hook.
const unseenCourse = 3

// evalEnding matches if the program was asked to end, or has run all its code, and does not end.
func evalEnding(w *window) hit {
	var h hit
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil || x.ending == endingNot {
			continue
		}
		if main := w.isMain(ts.Thread); !main && x.ending != endingServer {
			continue
		}
		age := ts.AtNS - x.endingNS
		switch x.ending {
		case endingHandler, endingHook:
			age = min(age, w.restsFor(ts, x))
		}
		score := float64(age) / w.limits.endingWait
		if x.ending == endingHook && x.courseNS == 0 {
			age = min(age, ts.DurationNS())
			score = float64(age) / w.limits.endingWait / unseenCourse
		}
		if score <= h.score || x.ending == endingHook && !w.hookHangs(ts, x, age) {
			continue
		}
		h = hit{score: score, severity: SeverityWarn, stack: x.stack, threads: []sampler.ThreadID{ts.Thread}}
		if score >= 1 {
			w.endingText(&h, ts, x, age)
		}
	}
	return h
}

// restsFor returns how long a thread has waited at one place, in ns. It is zero if it runs or wants to run.
func (w *moment) restsFor(ts *gvl.ThreadState, x *watch) int64 {
	switch ts.State {
	case gvl.IO, gvl.Lock, gvl.Parked, gvl.Sleeping, gvl.Native:
		return ts.AtNS - x.stackNS
	case gvl.Unknown:
		return ts.AtNS - max(x.stackNS, ts.SinceNS)
	}
	return 0
}

// hookHangs reports whether a hook at the program's end hangs. Test frameworks and small servers run the program itself
// in such a hook. So a long hook alone proves nothing. ddtop must have seen the program run before the hook, or no
// thread may have moved since the hook began.
func (w *moment) hookHangs(ts *gvl.ThreadState, x *watch, age int64) bool {
	if x.flags&(stackkind.Server|stackkind.Idle) != 0 {
		return false
	}
	for _, f := range code.Frames(w.dict, x.stack, code.MaxFrames) {
		label := code.Method(f.Label)
		for _, r := range runners {
			if strings.HasPrefix(label, r) {
				return false
			}
		}
	}
	serves := func(o *gvl.ThreadState, y *watch) bool {
		return y.flags&stackkind.Server != 0 || o.State == gvl.IO && y.idle
	}
	for i := range w.states {
		o := &w.states[i]
		y := w.watch(o.Thread)
		if y == nil {
			continue
		}
		if serves(o, y) || x.courseNS == 0 && min(w.restsFor(o, y), o.DurationNS()) < age {
			return false
		}
	}
	return true
}

// endingText describes how the program ends, and which thread does not end.
func (w *window) endingText(h *hit, ts *gvl.ThreadState, x *watch, age int64) {
	h.explains = w.sampledNS
	h.title = "Program does not end"
	told := units.ProseDuration(age)
	var others []sampler.ThreadID
	switch x.ending {
	case endingWaits:
		others = w.remaining(ts.Thread, func(o *gvl.ThreadState, _ *watch) bool {
			return o.Detail.Reason != gvl.ReasonDead
		})
		h.text = "its main thread ended " + told + " ago and " + tenseWaits + " for " +
			units.Plural(len(others), "other thread", "other threads")
		h.next = "look at its ensure clauses: a killed thread runs them to their end; Process.exit! does not wait"
	case endingLast:
		h.text = "its last thread ended " + told + " ago; finalizers or exit handlers of C code still " +
			tense("run", "ran")
		h.next = "look at the native stack (gdb, dump --native); Process.exit! ends without such handlers"
	case endingServer:
		others = w.remaining(ts.Thread, func(_ *gvl.ThreadState, y *watch) bool {
			return y.flags.Serves() && y.flags&stackkind.Ending == 0
		})
		h.text = "it " + tense("has been", "was") + " shutting down for " + told
		if len(others) == 0 {
			h.text += w.in(x.stack)
		} else {
			h.text += " and " + tenseWaits + " for " + units.Plural(len(others), "thread", "threads") + " at work"
		}
		h.next = "give this work a time limit that is shorter than the time the server is given to end"
	case endingUnwinds:
		h.text = "exit or a signal " + tense("ends", "ended") + " the main thread's code, which " +
			tense("has handled", "handled") + " that for " + told + w.in(x.stack)
		h.next = "give the ensure clause or handler a time limit, and tell the thread that it waits for to end first"
	case endingHook:
		h.text = "its main thread " + tense("has been", "was") + " in an at_exit hook or a finalizer for " + told +
			w.in(x.stack)
		h.next = "give the hook a time limit, or tell the thread that it waits for to end first"
	case endingHandler:
		h.title = "Handler does not return"
		h.text = "a signal's handler or a finalizer " + tense("has interrupted", "interrupted") +
			" the main thread and " + tense("waited", "waited") + " for " + told + w.in(x.stack)
		h.next = "let a handler only set a flag or write to a pipe: what it interrupted stands still until it returns"
	}
	if to := ts.Detail.Joined; to != 0 && len(others) == 0 {
		others = []sampler.ThreadID{to}
	} else if ts.Detail.Holder != 0 && len(others) == 0 {
		others = []sampler.ThreadID{ts.Detail.Holder}
	}
	if len(others) == 0 {
		return
	}
	o := w.state(others[0])
	if o == nil {
		return
	}
	h.threads = append(others, ts.Thread)
	h.stack = o.Stack
	h.text += "; " + w.name(others[0]) + ": " + gvl.Describe(*o, w.dict) + w.in(o.Stack)
	w.serves(h, others[0])
}

// remaining lists the threads for which ok is true. It leaves out the thread whose ID is the parameter but. The thread
// with the longest present state comes first.
func (w *moment) remaining(but sampler.ThreadID, ok func(*gvl.ThreadState, *watch) bool) []sampler.ThreadID {
	ids, _ := w.waiting(func(o *gvl.ThreadState, y *watch) bool { return o.Thread != but && ok(o, y) })
	return ids
}
