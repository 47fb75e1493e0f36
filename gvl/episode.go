package gvl

import (
	"github.com/ddtop/ddtop/sampler"
)

// episode is what the Classifier remembers of a thread.
type episode struct {
	// place, known and seen are read with each sample, so they come first, side by side.
	place Place
	known bool
	seen  evidence
	// last is the last verdict. Its AtNS is not kept up.
	last ThreadState
	// fromNS is the last sample in which the thread was not in this place, or was released for another reason. An
	// answer of the kernel must be newer to belong to the episode. sinceNS is the middle between that sample and the
	// next.
	fromNS, sinceNS int64
	// after is the state before the wait.
	after State
	// stack is the last fresh stack, and hint the hint that follows from it. hint is valid if hinted is true. Then the
	// stack was read within the episode.
	stack  sampler.StackID
	hint   hint
	hinted bool
	// cpuNS and turns are the thread's CPU time and how often it got a CPU. They were read at cpuAtNS, in this episode
	// while the thread slept in a call. cpuAtNS is zero before the first such reading. stillNS is the first reading
	// since which the thread has not moved. pauses is how often the target had been stopped by the last reading.
	cpuNS, turns, cpuAtNS, stillNS int64
	pauses                         uint64
	lock                           lockWait
	// wait is the wait for the GVL in progress. read is the last reading of the thread's counters in any state.
	wait waitEvidence
	read cpuReading
}

// evidence is the evidence for a released thread's state, apart from time and the scheduler.
type evidence struct {
	blocked   sampler.Blocked
	answerNS  int64
	cpuAtNS   int64
	tid       int32
	stack     sampler.StackID
	bits      sampler.ThreadBits
	status    sampler.Status
	rechecked bool
}

func evidenceOf(t *sampler.Thread) evidence {
	return evidence{
		blocked: t.Blocked, answerNS: t.Kernel.StateAtNS, cpuAtNS: t.Kernel.CPUAtNS, tid: t.TID, stack: t.Stack, bits: t.Bits,
		status: t.Status, rechecked: t.Kernel.Rechecked,
	}
}

// episodeFor begins a new episode if a thread has changed its place at the GVL. It also begins one if a released
// thread waits for something else now.
func (c *Classifier) episodeFor(t *sampler.Thread, e *episode, p Place, mid int64) {
	fresh := t.Quality&sampler.StackFresh != 0
	moved := p != e.place
	if !moved && p == PlaceReleased {
		b := &e.seen.blocked
		moved = t.Blocked.Kind != b.Kind || t.Blocked.Object != b.Object || t.Blocked.FD != b.FD ||
			fresh && e.hinted && t.Stack != e.stack
	}
	if moved {
		if p == PlaceWaiting {
			e.after = c.stateBeforeWait(t, e)
		}
		e.place, e.hinted, e.hint = p, false, hint{}
		// In the first sample of all, lastNS is 0: any answer of the kernel can belong to the episode.
		e.fromNS, e.sinceNS = c.lastNS, mid
		e.cpuAtNS = 0
	}
	e.seen = evidenceOf(t)
	if p == PlaceReleased && fresh && (!e.hinted || t.Stack != e.stack) {
		e.hint = c.hints.hintOf(t.Stack)
		e.hinted = true
	}
	if fresh {
		e.stack = t.Stack
	}
}

// woke reports whether a thread that waits for input or output, or sleeps, has left its call since its counters were
// last read. It stores the new reading. Up to 3.2, a thread that waits for a child also gets a CPU to keep Ruby's time
// slices, so its turns do not count. If the target is stopped for samples (pauses), each stop gives every thread a
// turn. Then woke returns false, and the thread counts as still unless it took more CPU time than the stops take.
func (e *episode) woke(s *sampler.Sample, k *sampler.Kernel, st State, d *Detail, pauses bool) bool {
	if k.CPUAtNS == e.cpuAtNS || k.CPUAtNS == 0 || d.Op == OpChild {
		return false
	}
	pauses = pauses || s.PauseNS != 0
	ranNS := k.CPUNS - e.cpuNS
	moved := k.Turns != e.turns || k.Turns == 0 && ranNS >= wokeNS
	if pauses {
		moved = ranNS >= wokeNS*int64(max(s.Reads.Pauses-min(e.pauses, s.Reads.Pauses), 1))
	}
	first := e.cpuAtNS == 0
	// ddtop does not ask for the call of a sleeping thread. Memory shows that it sleeps, and is read before its
	// counters.
	inCall := k.StateAtNS > e.fromNS && k.StateAtNS <= k.CPUAtNS && k.Syscall != sampler.SyscallRunning
	if inCall || st == Sleeping || st == Parked {
		e.cpuNS, e.turns, e.cpuAtNS, e.pauses = k.CPUNS, k.Turns, k.CPUAtNS, s.Reads.Pauses
		if first || moved {
			e.stillNS = k.CPUAtNS
		}
	} else {
		e.cpuAtNS = 0
	}
	return !first && moved && !pauses
}

// still returns a lower bound of the length of a wait in input or output, or of a sleep, in ns. It is the time between
// readings of the counters between which the thread did not move. A thread without a native thread has no counters. It
// counts as still while samples come at the requested rate.
func (e *episode) still(s *sampler.Sample, t *sampler.Thread, ts *ThreadState) int64 {
	switch {
	case e.cpuAtNS != 0:
		return max(e.cpuAtNS-max(e.stillNS, ts.SinceNS), 0)
	case t.TID == 0 && !s.Self.Lowered:
		return ts.DurationNS()
	}
	return 0
}
