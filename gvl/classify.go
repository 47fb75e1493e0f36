package gvl

import (
	"github.com/ddtop/ddtop/gvl/internal/listed"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// heldAnswerTicks is how long ddtop trusts the kernel's answer that a thread sleeps while it holds the GVL. The
	// unit is stack ticks: samples that read all stacks. At each of these samples, ddtop asks the kernel again.
	heldAnswerTicks = 3
	// minHeldAnswerNS and maxHeldAnswerNS are bounds, in ns, of the time that heldAnswerTicks ticks take. Outside these
	// bounds, the nearer bound is used.
	minHeldAnswerNS = 30e6
	maxHeldAnswerNS = 2e9
	// releasedAnswerNS is how long ddtop trusts the kernel's answer about a thread that has released the GVL, in ns.
	// ddtop trusts it only while memory and stacks show the thread in the same place.
	releasedAnswerNS = 30e9
	// wokeNS is a threshold for CPU time, in ns. If a thread that slept in a system call has used at least this much
	// between two readings, it has left the call. wokeNS is used only if the number of times that a thread got a CPU is
	// not known (recordings of version 1). It lies between two times measured on Ruby 3.1. A request and its answer of
	// one line over a socket took 80 µs of CPU time. Being stopped and continued by signals took 30 µs.
	wokeNS = 50_000
)

// Place is a thread's relation to the GVL: the thread holds the GVL, wants it, or neither.
type Place uint8

const (
	placeNone Place = iota
	PlaceHeld
	PlaceWaiting
	PlaceReleased
)

// Classifier decides the state of every thread of one target from its samples. It remembers what each thread did before
// (episode), so samples must come in order of time. It is not safe for concurrent use.
//
// Its rules use sampler.ThreadBits, which have the same meaning on all releases. The rules were checked against Ruby's
// own thread events. docs/reference/states.md explains the rules, and docs/internals/threads.md the facts behind them.
type Classifier struct {
	proc   sampler.Process
	dict   *sampler.Dictionary
	hints  hintTable
	table  listed.Table[episode]
	owners []owner
	// places is indexed by the ractor's index. It has the index in Sample.Threads at which the ractor's GVL holder was
	// last found, or -1 for a ractor without a holder.
	places []int
	out    []ThreadState
	// twice is set if the last sample listed a thread twice. In this case, an entry of out may describe the second
	// listing. So the classification of the next sample does not reuse the entries of out.
	twice  bool
	lastNS int64
	low    bool
	// collector is the index of the thread that collects garbage in this sample. It is -1 if no thread collects, or if
	// it is not known which.
	collector    int
	heldAnswerNS int64
	// halted is the reason why all threads of the process are stopped from outside, for example by a debugger. It is
	// one of the values of Detail.Reason, or empty if they are not stopped. haltedNS is when halted last changed.
	halted   string
	within   within
	haltedNS int64
	// queues has the last reading of each ractor's queue for the GVL. requeued has the threads that left such a queue
	// and came back to it since the last sample.
	queues   []queueSeen
	requeued []sampler.ThreadID
	// unfair is set if a thread that was chosen as the next holder can lose its turn and return to the head of the
	// queue. This happens from Ruby 4.1 on (see unfairQueue).
	unfair bool
}

// NewClassifier returns a Classifier for the target p. If dict is nil, the Classifier does not use frames and peers.
func NewClassifier(p sampler.Process, dict *sampler.Dictionary) *Classifier {
	c := &Classifier{proc: p, dict: dict, hints: hintTable{dict: dict}, table: listed.New[episode](), unfair: unfairQueue(p.RubyVersion)}
	c.heldAnswerNS = minHeldAnswerNS
	if p.StackRate > 0 {
		c.heldAnswerNS = min(max(c.heldAnswerNS, int64(heldAnswerTicks*1e9/p.StackRate)), maxHeldAnswerNS)
	}
	return c
}

// Classify returns the state of each thread of s, parallel to s.Threads. The slice is valid until the next call.
// Classify usually allocates nothing.
func (c *Classifier) Classify(s *sampler.Sample) []ThreadState {
	last := len(c.out)
	if cap(c.out) < len(s.Threads) {
		c.out = make([]ThreadState, len(s.Threads), len(s.Threads)+len(s.Threads)/4)
		last = 0
	}
	c.out = c.out[:len(s.Threads)]
	if c.twice {
		c.twice, last = false, 0
	}
	if last < len(c.out) {
		clear(c.out[last:]) // these results are from an older sample than the last one
	}
	c.findOwners(s)
	c.findCollector(s)
	halted := c.haltedBy(s)
	flipped := halted != c.halted
	c.halted = halted
	c.table.Begin(len(s.Threads))
	now := max(TimeOf(s), c.lastNS)
	c.findRequeued(s, now)
	mid := now
	if c.lastNS != 0 {
		mid = c.lastNS + (now-c.lastNS)/2
	}
	ri := 0
	for i := range s.Threads {
		t := &s.Threads[i]
		ri = ractorIndex(s, t.Ractor, ri)
		r, _ := c.table.Find(i, t.ID)
		if r == nil {
			r = new(listed.Record[episode])
			c.twice = true
		}
		e, out := &r.V, &c.out[i]
		if flipped {
			c.classify(s, t, i, ri, e, mid, now, out)
			c.flip(e, out, mid, now)
			continue
		}
		// The last result is kept only if ddtop's rates are as in the last sample. A change of the rates also changes
		// readNS, the time until which a wait for a lock is certain. So after such a change the thread is classified
		// again.
		if s.Depth == sampler.LockTick && s.Self.Lowered == c.low && e.place == PlaceReleased && out.Thread == t.ID &&
			c.unchanged(s, t, i, ri, e) {
			out.AtNS, out.Unchanged = now, true
			continue
		}
		if e.place == PlaceWaiting && out.Thread == t.ID && c.stillQueued(s, t, i, ri, e) && c.waitsOn(t, e) {
			if t.Quality&sampler.StackFresh != 0 {
				e.stack = t.Stack
			}
			out.AtNS, out.Unchanged = now, true
			out.Stack, e.last.Stack = t.Stack, t.Stack
			continue
		}
		c.classify(s, t, i, ri, e, mid, now, out)
		c.hold(e, out)
	}
	c.table.End(nil)
	c.lastNS, c.low = now, s.Self.Lowered
	return c.out
}

// haltedBy returns the reason why all threads of the process are stopped from outside in a sample, as in Detail.Reason.
// It is empty if they are not stopped. There are two sources: the process's counters, four times per second, and the
// system calls of holders, at each reading of the stacks.
func (c *Classifier) haltedBy(s *sampler.Sample) string {
	switch {
	case s.Proc.Frozen:
		return reasonFrozen
	case s.Proc.Stopped:
		return reasonStopped
	}
	for i := range c.owners {
		if at := c.owners[i].place; at >= 0 {
			switch k := &s.Threads[at].Kernel; {
			case !c.asleep(s, k):
			case k.Syscall == sampler.SyscallFrozen:
				return reasonFrozen
			case k.Syscall == sampler.SyscallStopped:
				return reasonStopped
			}
		}
	}
	return ""
}

// flip is called for each thread when the process is stopped from outside, or continues. It ends the thread's wait for
// the GVL, because no wait may include time in which the process was stopped. If the thread still waits, it begins a
// new wait.
func (c *Classifier) flip(e *episode, out *ThreadState, mid, now int64) {
	c.haltedNS = mid
	if e.last.State == Waiting {
		e.last.SinceNS = max(e.last.SinceNS, mid)
		out.SinceNS = e.last.SinceNS
		// The time in which the process was stopped is no part of a wait.
		e.beginWait(c.lastNS, now)
		out.Span = e.wait.WaitSpan
	}
	c.hold(e, out)
}

// hold makes a wait for the GVL Unknown while the process is stopped from outside, because no thread can release the
// GVL.
func (c *Classifier) hold(e *episode, out *ThreadState) {
	if c.halted == "" || e.last.State != Waiting {
		return
	}
	out.State, out.Detail, out.SinceNS = Unknown, Detail{FD: -1, Reason: c.halted}, max(out.SinceNS, c.haltedNS)
}

// ractorIndex returns the index of a ractor in s.Ractors, or -1 if it is not there. The parameter hint is the index at
// which it looks first.
func ractorIndex(s *sampler.Sample, id sampler.RactorID, hint int) int {
	if hint >= 0 && hint < len(s.Ractors) && s.Ractors[hint].ID == id {
		return hint
	}
	for i := range s.Ractors {
		if s.Ractors[i].ID == id {
			return i
		}
	}
	return -1
}

// unchanged reports whether a thread without the GVL is still in its last state. This is true for most threads in most
// samples, so unchanged saves most of the work in a sample without stacks (lock tick). It is not used in samples with
// stacks (stack ticks). They bring new answers of the kernel, so each thread is classified again.
func (c *Classifier) unchanged(s *sampler.Sample, t *sampler.Thread, i, ri int, e *episode) bool {
	return ri >= 0 && t.Bits&(sampler.BitQueued|sampler.BitLinked) == 0 && c.owners[ri].place != i &&
		!c.named(t.ID, &s.Ractors[ri]) && evidenceOf(t) == e.seen
}

// stillQueued reports whether a thread is still in the queue for the GVL. Such a thread need not be classified again,
// because only its stack can have changed. In a process with hundreds of threads, most threads are in the queue, so
// this saves much work. For the head of the queue, stillQueued returns false. The head may have been woken
// (WaitHandover), so it must be classified again.
func (c *Classifier) stillQueued(s *sampler.Sample, t *sampler.Thread, i, ri int, e *episode) bool {
	if ri < 0 || e.last.State != Waiting || e.last.Detail.Wait != WaitQueue || e.last.Ractor != t.Ractor ||
		t.Bits&(sampler.BitQueued|sampler.BitNoStatus|sampler.BitInferred) != sampler.BitQueued || c.owners[ri].place == i {
		return false
	}
	queue := s.Ractors[ri].Queue
	return len(queue) == 0 || queue[0] != t.ID
}

// atBarrier reports whether a holder waits at a barrier of the garbage collector. Either it has stopped because another
// ractor collects, or it wants to collect and waits until the others have stopped. Such a holder sleeps in a futex. If
// the kernel gives no answer, the collector's phase is enough: marking and compacting begin when all others have
// stopped (docs/internals/threads.md#ractors). While a thread sweeps, the others run.
func (c *Classifier) atBarrier(s *sampler.Sample, t *sampler.Thread, place int) bool {
	collecting := s.GC.Valid && s.GC.During
	if len(c.owners) < 2 || place == c.collector || !collecting && t.Bits&sampler.BitBarrier == 0 {
		return false
	}
	return c.inFutex(s, t) || collecting && c.collector >= 0 && t.Kernel.StateAtNS == 0 &&
		(s.GC.Mode == sampler.GCMarking || s.GC.Mode == sampler.GCCompacting)
}

// inFutex reports whether the kernel says that a holder sleeps in a futex.
func (c *Classifier) inFutex(s *sampler.Sample, t *sampler.Thread) bool {
	return t.Kernel.Syscall == "futex" && c.asleep(s, &t.Kernel)
}

// classify decides one thread's state, and updates what the Classifier remembers about the thread (its episode).
func (c *Classifier) classify(s *sampler.Sample, t *sampler.Thread, i, ri int, e *episode, mid, now int64, out *ThreadState) {
	if t.Bits&sampler.BitNoStatus != 0 && e.known && t.Bits&(sampler.BitLinked|sampler.BitQueued) == 0 && e.place == PlaceReleased {
		// The thread has released the GVL, and its status could not be read. So nothing new is known: keep the last
		// state.
		*out = e.last
		out.AtNS = now
		return
	}
	st, d, p := c.placeAtGVL(s, t, i, ri)
	waited := e.known && e.place == PlaceWaiting && p == PlaceWaiting
	c.episodeFor(t, e, p, mid)
	ran := false
	switch p {
	case PlaceHeld:
		st, d = c.held(s, t, i, e)
	case PlaceReleased:
		st, d = c.released(s, t, e)
	case PlaceWaiting:
		if !waited {
			e.beginWait(c.lastNS, now)
		}
		if ran = c.seeWait(s, t, e, &d, now) && waited; ran {
			e.after = Unknown // the state before this wait was not seen
		}
		d.After = e.after
		d.Inferred = t.Bits&sampler.BitInferred != 0
	}
	e.seeReading(t, p)
	since, before := mid, e.cpuAtNS
	parked := st == Parked && !InQueue(st, &d)
	counted := st == IO || st == Sleeping || parked
	// A parked thread may get a CPU for a signal or a time slice, and park again. This does not end its wait. It only
	// makes the wait's length less certain.
	woke := counted && e.woke(s, &t.Kernel, st, &d, c.proc.Pauses) && !parked
	switch prev := &e.last; {
	case !e.known:
	case ran:
		since = e.wait.middle(now)
	case prev.State == st:
		since = prev.SinceNS
		if woke {
			// The counters show that since their last reading the thread left its system call and made another one. The
			// kernel's answer is about the new call.
			e.sinceNS = min(max(since, before+(t.Kernel.CPUAtNS-before)/2)+1, now)
		}
		if p == PlaceReleased && e.sinceNS > since {
			since = e.sinceNS
		}
	case p == PlaceReleased && prev.State == Unknown && prev.Detail.Reason == ReasonNotAsked && prev.SinceNS >= e.sinceNS:
		// An episode is the time in which a thread stays in one place. The kernel's answer came after the episode's
		// first sample, but is true for the whole episode. So the state begins with the episode.
		since = prev.SinceNS
	}
	if t.Bits&sampler.BitMain != 0 && t.Status != sampler.Killed {
		d.Within = c.within.wordsOf(c.dict, t)
	}
	*out = ThreadState{
		Thread: t.ID, Ractor: t.Ractor, State: st, Detail: d, SinceNS: since, AtNS: now, Stack: t.Stack,
	}
	if counted {
		out.StillNS = e.still(s, t, out)
	}
	if p == PlaceWaiting {
		out.Span = e.wait.WaitSpan
	}
	if forOthers(st, &d) || e.lock.fromNS != 0 {
		turns := t.Kernel.Turns
		if c.proc.Pauses {
			turns = 0 // the stop for a sample gives every thread a CPU once, so the number of turns proves nothing
		}
		e.lock.seen(t, out, turns)
		if s.Self.Lowered && st == Lock && turns != 0 {
			out.readNS = t.Kernel.CPUAtNS
		}
	}
	e.known, e.last = true, *out
}

// placeAtGVL decides whether a thread holds the GVL, wants it, or neither. It uses only the data of Ruby's scheduler.
// The state and detail that it returns are final only if the state is Waiting.
func (c *Classifier) placeAtGVL(s *sampler.Sample, t *sampler.Thread, i, ri int) (State, Detail, Place) {
	d := Detail{FD: -1}
	if ri < 0 {
		return Unknown, d, PlaceReleased
	}
	r := &s.Ractors[ri]
	switch {
	case c.owners[ri].place == i:
		if c.atBarrier(s, t, i) {
			d.Wait = WaitCPUSlot
			return Waiting, d, PlaceWaiting
		}
		return Running, d, PlaceHeld
	case t.Bits&sampler.BitQueued != 0:
		d.Wait = WaitQueue
		// Before 3.3 the woken head of the queue stays in the queue until it has the GVL's lock
		// (docs/internals/threads.md#the-gvl-and-its-queue).
		if c.proc.Era != sampler.EraSched && r.OwnerStart == 0 && r.OwnerEnd == 0 && len(r.Queue) > 0 && r.Queue[0] == t.ID {
			d.Wait = WaitHandover
		}
		return Waiting, d, PlaceWaiting
	case c.named(t.ID, r) && t.Bits&sampler.BitLinked == 0:
		d.Wait = WaitHandover
		if t.Bits&sampler.BitUnmounted != 0 {
			d.Wait = WaitCPUSlot
		}
		return Waiting, d, PlaceWaiting
	case t.Status == sampler.Runnable && t.Bits&(sampler.BitBlockingRegion|sampler.BitNoStatus) == 0:
		d.Wait = WaitYield
		return Waiting, d, PlaceWaiting
	}
	return Unknown, d, PlaceReleased
}

// stateBeforeWait returns the state of a thread before it wanted the GVL. If no sample saw this state, Ruby's memory
// may still name a descriptor that the thread waited for. In that case the state was IO
// (docs/internals/threads.md#what-a-thread-waits-for).
func (c *Classifier) stateBeforeWait(t *sampler.Thread, e *episode) State {
	if e.known && e.last.State != Unknown {
		return e.last.State
	}
	if t.Blocked.Kind == sampler.BlockIO {
		return IO
	}
	return Unknown
}

// held returns the state of a thread that holds the GVL: Running, Stalled or GC.
func (c *Classifier) held(s *sampler.Sample, t *sampler.Thread, place int, e *episode) (State, Detail) {
	d := Detail{FD: -1}
	if place == c.collector {
		d.GCMode, d.GCMinor, d.GCReason = s.GC.Mode, s.GC.Minor, uint16(s.GC.Reason)
		return GC, d
	}
	k := &t.Kernel
	if k.StateAtNS <= e.fromNS || !c.asleep(s, k) {
		return Running, d
	}
	d.Syscall = k.Syscall
	if k.Syscall != sampler.SyscallNone && k.Syscall != sampler.SyscallEnded && !Halts(k.Syscall) && k.Syscall != sampler.SyscallLostLock {
		d.FD, d.FDs, d.Peer = k.FD, k.FDs, k.Peer
	}
	return Stalled, d
}

// asleep reports whether the kernel found a holder asleep. The answer must be recent. The thread must also have held
// the GVL when ddtop read memory after the answer.
func (c *Classifier) asleep(s *sampler.Sample, k *sampler.Kernel) bool {
	limit := c.heldAnswerNS
	if s.Slow {
		limit = maxHeldAnswerNS
	}
	return k.Rechecked && k.Syscall != "" && k.Syscall != sampler.SyscallRunning && s.TimeNS-k.StateAtNS <= limit
}
