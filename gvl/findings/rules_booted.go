package findings

import (
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// ruleNeverBooted is the rule for a forked process, such as a worker of Puma, that has not begun its work.
const ruleNeverBooted = "never_booted"

const (
	// forkedCPU limits the CPU time, in ns, of a process that has done nothing since its fork. A parent that waits in
	// its own call of fork has used more, because starting Ruby needs more. forkedSeenNS is how long ddtop must have
	// observed such a process, in ns.
	forkedCPU, forkedSeenNS = 20e6, 1e9
	// servesThread is a part of a thread's name. After its start, a worker of Puma has such a thread until it ends.
	servesThread = "stat pld"
)

// evalNeverBooted matches if a forked process has run no Ruby code yet, or if a worker waits in a hook at its start.
func evalNeverBooted(w *window) hit {
	var h hit
	for i := range w.states {
		ts := &w.states[i]
		x := w.watch(ts.Thread)
		if x == nil {
			continue
		}
		age, score := ts.AtNS-w.ev.startNS, 0.0
		if cpu := w.lastPr.UserNS + w.lastPr.SystemNS; x.flags&stackkind.Fork != 0 && w.lastPr.AtNS != 0 && cpu <= forkedCPU {
			score = least(float64(age)/w.limits.unbootedFork, float64(ts.AtNS-x.stackNS)/forkedSeenNS)
		} else if x.flags&stackkind.Boot != 0 && w.isMain(ts.Thread) && w.starts() {
			score = float64(w.restsFor(ts, x)) / w.limits.unbootedHook
		}
		if score <= h.score {
			continue
		}
		h = hit{score: score, severity: SeverityCrit, stack: x.stack, threads: []sampler.ThreadID{ts.Thread}}
		if score >= 1 {
			bootText(w, &h, ts, x, units.ProseDuration(age))
		}
	}
	return h
}

// starts reports whether the process is a server's worker that does not have a Puma worker's threads yet.
func (w *moment) starts() bool {
	for i := range w.states {
		if strings.Contains(w.name(w.states[i].Thread), servesThread) {
			return false
		}
	}
	return strings.HasPrefix(w.ev.proc.Part, "w")
}

// bootText describes which process forked the worker, how long ago, and where the worker waits.
func bootText(w *window, h *hit, ts *gvl.ThreadState, x *watch, age string) {
	h.explains = w.sampledNS
	h.title = "Worker never booted"
	parent := "its parent"
	if p := w.ev.proc.Parent; p > 1 {
		parent = "process " + itoa(int64(p))
	}
	if x.flags&stackkind.Fork != 0 {
		h.text = "it has run no Ruby code since " + parent + " forked it " + age + " ago" + w.in(x.stack)
		h.next = "start threads of C libraries (gRPC, librdkafka) after the fork, or stop them before it; dump has the C " +
			"functions in which it waits"
		return
	}
	h.text = parent + " forked it " + age + " ago, and it " + tense("has not finished", "had not finished") + " its start: " +
		w.name(ts.Thread) + " " + tense("has waited", "waited") + " for " + units.ProseDuration(w.restsFor(ts, x)) + w.in(x.stack) +
		": " + gvl.Describe(*ts, w.dict)
	h.next = "see what the hook waits for, and give it a time limit"
}
