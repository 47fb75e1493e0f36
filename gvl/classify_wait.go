package gvl

import (
	"slices"
	"strconv"
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// timerNS is the interval at which a waiting thread wakes up to end the holder's time slice, in ns. Up to Ruby
	// 3.2, one of the waiting threads does this (do_gvl_timer in thread_pthread.c).
	timerNS = 100e6
	// maxQueues limits for how many ractors the Classifier remembers the queue for the GVL.
	maxQueues = 256
)

// WaitSpan is what samples show of a wait for the GVL that is in progress.
type WaitSpan struct {
	// The wait began between afterNS and ByNS, CLOCK_MONOTONIC in ns. afterNS is zero if the thread already waited in
	// the first sample.
	afterNS, ByNS int64
	// The thread is known not to have run between SinceNS and ReadNS, the last reading of its counters. Both are zero
	// if there was no reading.
	SinceNS, ReadNS int64
	// uncounted is set if the thread's counters were never read, because it has no native thread.
	uncounted bool
}

// stillNS returns how long the thread is known not to have run, in ns.
func (w *WaitSpan) stillNS() int64 { return max(w.ReadNS-w.SinceNS, 0) }

// waitEvidence is what the Classifier remembers about a wait for the GVL. If two consecutive samples show the thread
// waiting, it may have had the GVL in between. This evidence shows whether it did.
type waitEvidence struct {
	WaitSpan
	// cpuAtNS is when the thread's counters were last read. cpuNS and turns are the values read at that time: the
	// thread's CPU time, and how often it got a CPU. cpuAtNS is zero if the counters were read neither in this wait nor
	// in the wait before it.
	cpuAtNS, cpuNS, turns int64
	tid                   int32
	stack                 sampler.StackID // last stack read in this wait, or zero
	// queued is set if a sample showed the thread in the queue. chosen is set if a sample showed the thread as the next
	// holder. The field left is set if a later sample showed it neither in the queue nor chosen.
	queued, chosen, left bool
	// ranNS is the last time at which the thread's place in the queue proved that the thread had run. It is zero if no
	// sample of this wait proved this.
	ranNS  int64
	pauses uint64
}

// cpuReading is a reading of a thread's counters.
type cpuReading struct {
	atNS, turns int64
	tid         int32
	held        bool // true if the thread held the GVL at this reading
}

// queueSeen is the last reading of a ractor's queue for the GVL. rank has the position of each thread in list.
type queueSeen struct {
	ractor sampler.RactorID
	atNS   int64
	list   []sampler.ThreadID
	rank   map[sampler.ThreadID]int
}

// findRequeued finds the threads that left the queue for the GVL since its last reading and came back. Threads leave
// the queue at its head and join at its end (docs/internals/threads.md#the-gvl-and-its-queue). So a thread has come
// back in two cases. First, it is now behind a thread that was behind it before. Second, it was the first thread, and
// is still in the queue but not first now.
func (c *Classifier) findRequeued(s *sampler.Sample, now int64) {
	c.requeued = c.requeued[:0]
	for i := range s.Ractors {
		r := &s.Ractors[i]
		if r.Torn {
			continue
		}
		q := c.queueOf(r.ID)
		if q == nil || slices.Equal(q.list, r.Queue) {
			if q != nil {
				q.atNS = now
			}
			continue
		}
		if len(q.list) > 0 && len(r.Queue) > 1 {
			c.compareQueues(q, r.Queue)
		}
		q.list, q.atNS = append(q.list[:0], r.Queue...), now
	}
}

// queueOf returns the last reading of a ractor's queue, or an empty one if there was none. It returns nil if there is
// no room for another ractor (maxQueues).
func (c *Classifier) queueOf(id sampler.RactorID) *queueSeen {
	for i := range c.queues {
		if c.queues[i].ractor == id {
			return &c.queues[i]
		}
	}
	if len(c.queues) >= maxQueues {
		return nil
	}
	c.queues = append(c.queues, queueSeen{ractor: id, rank: make(map[sampler.ThreadID]int)})
	return &c.queues[len(c.queues)-1]
}

// compareQueues adds to c.requeued the threads that left the queue and came back to it.
func (c *Classifier) compareQueues(q *queueSeen, list []sampler.ThreadID) {
	clear(q.rank)
	for i, id := range q.list {
		q.rank[id] = i
	}
	ahead := -1
	for i, id := range list {
		rank, was := q.rank[id]
		if !was {
			continue
		}
		if rank < ahead || rank == 0 && i > 0 && !c.unfair {
			c.requeued = append(c.requeued, id)
		}
		ahead = max(ahead, rank)
	}
}

// waitsOn reports whether the sample has no news of a thread that waits for the GVL: no new counters, no new stack, and
// no return to the queue. The wait then simply continues.
func (c *Classifier) waitsOn(t *sampler.Thread, e *episode) bool {
	w := &e.wait
	return t.Kernel.CPUAtNS == w.cpuAtNS && (len(c.requeued) == 0 || !slices.Contains(c.requeued, t.ID)) &&
		(t.Stack == w.stack || t.Quality&^sampler.WorkUnknown != sampler.StackFresh)
}

// beginWait begins a wait for the GVL with the sample that saw it first.
func (e *episode) beginWait(lastNS, now int64) {
	e.wait = waitEvidence{WaitSpan: WaitSpan{afterNS: lastNS, ByNS: now}}
}

// seeWait adds a sample of a thread that waits for the GVL. ran is true if the thread certainly had the GVL since the
// last sample. In this case a new wait has begun.
func (c *Classifier) seeWait(s *sampler.Sample, t *sampler.Thread, e *episode, d *Detail, now int64) (ran bool) {
	w := &e.wait
	read := t.Quality&^sampler.WorkUnknown == sampler.StackFresh
	// While a thread waits, its frames cannot change. If the stack has changed, the thread had the GVL in between.
	if ran = c.leftQueue(t, w, d) || read && w.stack != 0 && t.Stack != w.stack; ran {
		*w = waitEvidence{WaitSpan: WaitSpan{afterNS: c.lastNS, ByNS: now}, cpuAtNS: w.cpuAtNS, cpuNS: w.cpuNS, turns: w.turns, tid: w.tid,
			ranNS: now, pauses: w.pauses}
	}
	if read {
		w.stack = t.Stack
	}
	queued := t.Bits&sampler.BitQueued != 0
	switch {
	case queued:
		w.queued, w.left = true, false
	case c.proc.Era == sampler.EraSched && (d.Wait == WaitHandover || d.Wait == WaitCPUSlot):
		w.chosen = true
	case d.Wait == WaitYield:
		w.left = w.queued || w.chosen
	}
	return c.seeCounters(s, t, e, now) || ran
}

// leftQueue reports whether a thread's place in the queue shows that it had the GVL since the last sample.
func (c *Classifier) leftQueue(t *sampler.Thread, w *waitEvidence, d *Detail) bool {
	return t.Bits&sampler.BitQueued != 0 && (w.left || w.chosen && !c.unfair || slices.Contains(c.requeued, t.ID))
}

// seeCounters compares the counters of a thread that waits for the GVL with their last values. ran is true if they
// prove that the thread had the GVL in between.
func (c *Classifier) seeCounters(s *sampler.Sample, t *sampler.Thread, e *episode, now int64) (ran bool) {
	w, k := &e.wait, &t.Kernel
	if k.CPUAtNS == w.cpuAtNS || k.CPUAtNS == 0 || k.CPUAtNS < w.ByNS && w.cpuAtNS == 0 {
		return false // no reading in this wait, or no new one
	}
	first := w.cpuAtNS == 0 || t.TID != w.tid
	moved, known := c.moved(s, k, w)
	switch {
	case first:
		w.SinceNS = k.CPUAtNS
		if b := &e.read; b.held && b.tid == t.TID && b.turns != 0 && b.turns == k.Turns {
			// The thread last got a CPU before the wait, when it held the GVL. So it has slept since the wait began.
			w.SinceNS = w.ByNS
		}
	case w.ranNS > w.cpuAtNS: // the thread's place in the queue has proved that the thread ran
		w.SinceNS = k.CPUAtNS
		if !moved {
			w.SinceNS = w.ByNS
		}
	case moved && known:
		*w = waitEvidence{WaitSpan: WaitSpan{afterNS: max(w.cpuAtNS, w.afterNS), ByNS: max(min(k.CPUAtNS, now), w.ByNS)}, stack: w.stack, queued: w.queued}
		w.SinceNS = k.CPUAtNS
		ran = true
	case moved:
		w.SinceNS = k.CPUAtNS
	}
	w.cpuAtNS, w.cpuNS, w.turns, w.tid, w.pauses = k.CPUAtNS, k.CPUNS, k.Turns, t.TID, s.Reads.Pauses
	w.ReadNS = k.CPUAtNS
	return ran
}

// moved reports whether a waiting thread has had a CPU since its counters were last read. known is set if it certainly
// also had the GVL. There are two reasons why the thread can get a CPU without the GVL. Up to Ruby 3.2, waiting threads
// are woken to end the holder's time slice. And if the target is stopped for samples, every thread gets a CPU when it
// continues.
func (c *Classifier) moved(s *sampler.Sample, k *sampler.Kernel, w *waitEvidence) (moved, known bool) {
	turns, ranNS := k.Turns-w.turns, k.CPUNS-w.cpuNS
	switch {
	case c.proc.Pauses || s.PauseNS != 0:
		return ranNS >= wokeNS*int64(max(s.Reads.Pauses-min(w.pauses, s.Reads.Pauses), 1)), false
	case k.Turns == 0 || w.turns == 0:
		return ranNS > 0, ranNS >= wokeNS
	case turns == 0:
		// The kernel can add the CPU time of a thread's last turn late, so a growth of the CPU time proves nothing.
		return false, false
	case c.proc.Era == sampler.EraSched:
		return true, true
	}
	return true, turns >= 2+(k.CPUAtNS-w.cpuAtNS)/timerNS || ranNS >= wokeNS
}

// seeReading remembers the last reading of a thread's counters, and whether the thread held the GVL.
func (e *episode) seeReading(t *sampler.Thread, p Place) {
	if k := &t.Kernel; k.CPUAtNS != e.read.atNS {
		e.read = cpuReading{k.CPUAtNS, k.Turns, t.TID, p == PlaceHeld}
	}
	e.wait.uncounted = e.read.atNS == 0
}

// middle returns the likely beginning of a wait that began between two samples.
func (w *WaitSpan) middle(now int64) int64 { return min(w.afterNS+(w.ByNS-w.afterNS)/2, now) }

// unfairQueue reports whether, in this version of Ruby, a thread can return to the head of the queue. From Ruby 4.1 on,
// a thread that comes back from a short call may take the GVL from the thread that was chosen next. The chosen thread
// then returns to the head (thread_pthread.c).
func unfairQueue(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	return a > 4 || a == 4 && b >= 1
}
