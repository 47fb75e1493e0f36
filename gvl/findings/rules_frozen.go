package findings

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// ruleFrozen is the rule for a process that is stopped from outside. While its finding is active, no other finding is
// shown.
const ruleFrozen = "frozen"

// frozenRule returns the index of ruleFrozen in rules.
func frozenRule() int {
	return slices.IndexFunc(rules[:], func(r rule) bool { return r.id == ruleFrozen })
}

// frozenBy reports whether the process was stopped by its cgroup, and not by a signal or a debugger.
func frozenBy(k *gvl.Tick) bool {
	return k.Proc.Frozen || slices.ContainsFunc(k.States, func(t gvl.ThreadState) bool {
		return t.Stopped() && t.Detail.Syscall == sampler.SyscallFrozen
	})
}

// judgeHalted evaluates ruleFrozen, the only rule for a stopped process.
func (f *Findings) judgeHalted(now int64) {
	f.win.nowNS, f.win.limits = now, f.ev.limits
	f.trail.sampledNS = 0
	i := frozenRule()
	f.judge(i, now, &f.win)
	st := &f.states[i]
	st.shown = st.raised
}

// frozen reports whether the finding of ruleFrozen is active.
func (f *Findings) frozen() bool {
	st := &f.states[frozenRule()]
	return st.raised && st.endedNS == 0
}

// evalFrozen matches if something outside the process keeps all of its threads from running.
func evalFrozen(w *window) hit {
	n := len(w.ev.stops)
	if n == 0 || !w.ev.stopped() {
		return hit{}
	}
	last := w.ev.stops[n-1]
	age := w.nowNS - last.fromNS
	h := hit{score: float64(age) / w.limits.frozenTime, severity: SeverityCrit, explains: w.total.busy}
	if h.score < 1 {
		return h
	}
	told := " for "
	if w.ev.cur == nil {
		told = " for at least " // no sample saw the process run
	}
	told += units.ProseDuration(age)
	pid := itoa(int64(w.ev.proc.PID))
	if last.frozen {
		h.title = "Process " + tenseIs + " frozen"
		h.text = "its cgroup " + tense("keeps", "kept") + " all of its threads from running" + told
		h.next = "thaw it: docker unpause, systemctl thaw, or 0 in cgroup.freeze (see /proc/" + pid + "/cgroup)"
		return h
	}
	h.title = "Process " + tenseIs + " stopped"
	h.text = "a signal (SIGSTOP, ctrl-z) or a debugger " + tense("keeps", "kept") +
		" all of its threads from running" + told
	h.next = "TracerPid in /proc/" + pid + "/status names a debugger; without one, kill -CONT " + pid + " lets it run"
	return h
}
