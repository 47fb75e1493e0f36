package live

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// ErrRealTime is the error of Open when Options.RealTime is asked for and not available.
var ErrRealTime = errors.New("no real-time priority")

// What a sampling thread of real-time priority may do before the watchdog takes the priority from it. On a machine with one
// CPU such a thread could starve the target.
const (
	// realTimeShare is the largest part of a CPU it may take, over realTimeWindow: 10 kHz take some 25 %.
	realTimeShare  = 0.5
	realTimeWindow = 500 * time.Millisecond
	// realTimeSilence is how long one tick may take.
	realTimeSilence = 300 * time.Millisecond
	// realTimeWatch is how often the watchdog looks. It counts its own looks, so that a machine that stood still (a virtual
	// one that was paused) is not taken for a thread that did.
	realTimeWatch = 50 * time.Millisecond
	// realTimeLimit and realTimeKill are the second line, for the case that the watchdog itself gets no CPU: the kernel
	// sends SIGXCPU when a real-time thread has run that long without sleeping, and in the end kills ddtop (RLIMIT_RTTIME,
	// getrlimit(2)). The target goes on.
	realTimeLimit = time.Second
	realTimeKill  = 3 * time.Second
)

// guard raises the priority of a sampling thread and watches over it where that priority is real-time.
type guard struct {
	realTime bool
	// now is the thread's sampler.Priority: the kernel's word when it was set last, or why real-time was given up.
	now atomic.Uint32
	// beats counts how often the thread went to sleep and woke up: it is odd while a tick goes on.
	beats  atomic.Uint64
	thread guardedThread
}

// watchdog decides, from what is seen at each look, whether a real-time thread may stay one. It is pure.
type watchdog struct {
	started bool
	// beats is the count at the last look, silent for how long one tick has gone on.
	beats  uint64
	silent time.Duration
	// windowCPU and windowNS are the thread's CPU time and the time when the window began.
	windowCPU, windowNS int64
}

// look takes the count of beats, the thread's CPU time and the time now, both in ns, and says why real-time priority has to
// be given up: PriorityDroppedBusy, PriorityDroppedSilent, or 0 for not at all.
func (w *watchdog) look(beats uint64, cpuNS, nowNS int64) sampler.Priority {
	if !w.started {
		w.started, w.beats, w.windowCPU, w.windowNS = true, beats, cpuNS, nowNS
		return 0
	}
	if beats == w.beats && beats%2 == 1 {
		w.silent += realTimeWatch
	} else {
		w.beats, w.silent = beats, 0
	}
	if w.silent >= realTimeSilence {
		return sampler.PriorityDroppedSilent
	}
	if d := nowNS - w.windowNS; d >= int64(realTimeWindow) {
		if float64(cpuNS-w.windowCPU) > realTimeShare*float64(d) {
			return sampler.PriorityDroppedBusy
		}
		w.windowCPU, w.windowNS = cpuNS, nowNS
	}
	return 0
}

// wake is called when the thread has slept until the next tick. It and rest belong to the sampling thread.
func (g *guard) wake() { g.beats.Add(1) }

// rest is called before the thread sleeps until the next tick. The first tick, which reads every name, is made without
// real-time priority.
func (g *guard) rest() {
	switch n := g.beats.Load(); {
	case n%2 == 0: // nothing was read yet
		return
	case n == 1 && g.realTime:
		g.raise()
	}
	g.beats.Add(1)
}

// priority is what the sampling thread runs at; unknown before it runs.
func (g *guard) priority() sampler.Priority { return sampler.Priority(g.now.Load()) }
