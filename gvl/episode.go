package gvl

import (
	"github.com/ddtop/ddtop/sampler"
)

// episode is what the Classifier remembers about a thread while the thread stays in one Place: it holds the GVL, wants
// it, or neither. If it neither holds nor wants the GVL (PlaceReleased), a new episode also begins when the thread
// waits for something else.
type episode struct {
	// place, known and seen are used with each sample. They are next to each other in memory, so that they are in the
	// same lines of the CPU's cache.
	place Place
	known bool
	seen  evidence
	// last is the last result of the Classifier for this thread. Only its AtNS can be too old, because it is not
	// updated in samples that change nothing.
	last ThreadState
	// fromNS is the time of the last sample before the episode, the time in which the thread stays in one place. A
	// reading of /proc belongs to the episode only if it is newer than fromNS. sinceNS is the middle between the sample
	// at fromNS and the episode's first sample.
	fromNS, sinceNS int64
	// after is the state in which the thread was before it wanted the GVL.
	after State
	// stack is the last stack that was read. hint is what this stack shows about the thread's state. hinted is set if
	// the stack was read within the episode. hint is valid only if hinted is set.
	stack  sampler.StackID
	hint   hint
	hinted bool
	// cpuNS and turns are the CPU time of a thread that sleeps in a system call, and how often it got a CPU. Both were
	// read at cpuAtNS, in this episode. cpuAtNS is zero before the first such reading. stillNS is the time of the first
	// reading that found the present values. pauses is how often ddtop had stopped the target for samples when cpuNS
	// was read.
	cpuNS, turns, cpuAtNS, stillNS int64
	pauses                         uint64
	lock                           lockWait
	// wait is the wait for the GVL in progress. read is the last reading of the thread's counters in any state.
	wait waitEvidence
	read cpuReading
}

// evidence has the data that decides the state of a thread without the GVL, apart from time and Ruby's scheduler data.
// The Classifier compares it with the last evidence to see whether the thread waits for something else now.
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

// episodeFor begins a new episode (a thread's time in one place) if the thread has changed its place at the GVL. It
// also begins one if a thread that has released the GVL now waits for something else.
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
		// In the very first sample lastNS is 0, so every reading of /proc is newer and can belong to the episode.
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

// woke reports whether a waiting or sleeping thread has left its system call since its counters were last read. It
// stores the new reading. In two cases woke returns false although the thread got a CPU. Up to Ruby 3.2, a thread that
// waits for a child process also gets a CPU to end time slices. And if ddtop stops the target for samples (pauses),
// each stop gives every thread a CPU once. After such stops, the thread counts as still asleep (stillNS) unless it used
// more CPU time than the stops need.
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
	// A thread in state sleep or parked needs no answer of the kernel, and ddtop does not ask for its system call.
	// Memory, which is read before the counters, already shows that it sleeps.
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
// the first and the last reading of counters that have not changed. A Ruby thread without a native thread has no
// counters. It counts as still while samples arrive at the requested rate.
func (e *episode) still(s *sampler.Sample, t *sampler.Thread, ts *ThreadState) int64 {
	switch {
	case e.cpuAtNS != 0:
		return max(e.cpuAtNS-max(e.stillNS, ts.SinceNS), 0)
	case t.TID == 0 && !s.Self.Lowered:
		return ts.DurationNS()
	}
	return 0
}
