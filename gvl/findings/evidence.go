package findings

import (
	"slices"
	"strings"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/account"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/gvl/findings/internal/backlog"
	"github.com/ddtop/ddtop/gvl/findings/internal/barrier"
	"github.com/ddtop/ddtop/gvl/findings/internal/contests"
	"github.com/ddtop/ddtop/gvl/findings/internal/gates"
	"github.com/ddtop/ddtop/gvl/findings/internal/loop"
	"github.com/ddtop/ddtop/gvl/findings/internal/memory"
	"github.com/ddtop/ddtop/gvl/findings/internal/pauses"
	"github.com/ddtop/ddtop/gvl/findings/internal/resting"
	"github.com/ddtop/ddtop/gvl/findings/internal/spin"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/gvl/findings/internal/usual"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// hold is the part of one hold of the GVL in which other threads waited for it.
type hold struct {
	thread sampler.ThreadID
	stack  sampler.StackID
	kind   gvl.State
	// ns is the hold's length since another thread began to wait, without time in GC and time without a CPU.
	ns      int64
	waiters int64
	// least is set if ns is a lower bound.
	least bool
}

// second has the sums of one second of the stream.
type second struct {
	at   int64
	sums map[sumKey]int64
	counts
	// gc, proc and self are the last readings in this second: of the collector, the process, and ddtop's own CPU time.
	gc   sampler.GC
	proc sampler.Proc
	self account.Meter
}

// counts are the totals of a second, or of a window.
type counts struct {
	sampledNS int64
	quality   sampler.Quality
	gcNS      int64
	waits     gvl.Lengths
	// longest is the longest hold. stuckNS is the total time of holds that are longer than the threshold (stuckHold,
	// stuckAsleep).
	longest hold
	stuckNS int64
	// pause is the collection that used most time on a CPU. full is the full collection whose length is the largest
	// multiple of its threshold (longFull). lackedNS is the time without a CPU in long collections that ended in this
	// second.
	pause, full pauses.Pause
	lackedNS    int64
	// poolNS is the length of the longest wait for a connection of a pool. poolStack is the stack of this wait, and
	// poolTold is its length as text.
	poolNS    int64
	poolStack sampler.StackID
	poolTold  gvl.Bounded
	// The fields that end in CPU are times with a CPU. The fields that end in Wait are times in which a thread was
	// ready but had no CPU. Holders have the GVL, native threads work without it.
	holderCPU, holderWait, nativeCPU, nativeWait int64
}

// add adds the totals of o to c. For each longest time, c keeps the longer of the two.
func (c *counts) add(o *counts) {
	c.sampledNS += o.sampledNS
	c.quality.Add(&o.quality)
	c.gcNS += o.gcNS
	c.lackedNS += o.lackedNS
	c.stuckNS += o.stuckNS
	c.holderCPU += o.holderCPU
	c.holderWait += o.holderWait
	c.nativeCPU += o.nativeCPU
	c.nativeWait += o.nativeWait
	c.waits.Merge(&o.waits)
	if o.pause.RanNS > c.pause.RanNS {
		c.pause = o.pause
	}
	if o.full.RanNS > c.full.RanNS {
		c.full = o.full
	}
	if o.poolNS > c.poolNS {
		c.poolNS, c.poolStack, c.poolTold = o.poolNS, o.poolStack, o.poolTold
	}
	if o.longest.ns > c.longest.ns {
		c.longest = o.longest
	}
}

// watch has what the type collector remembers about one thread from sample to sample.
type watch struct {
	id      sampler.ThreadID
	slot    int
	state   gvl.State
	idle    bool
	group   uint32 // the group of connections to which the awaited peer belongs, or groupSleep
	flags   stackkind.Flags
	sinceNS int64 // when the state began
	stillNS int64 // lower bound of the state's length (ThreadState.StillNS)
	stack   sampler.StackID
	stackNS int64 // when the stack last changed
	// moved is set if ddtop saw the thread arrive at this stack. Then the thread had another stack before, or it left
	// this stack and came back.
	moved bool
	// listens is true if the thread waits for data on a TCP connection, but not for an answer (sampler.Kernel.Listens).
	listens bool
	// began is set if ddtop saw the state begin. timed is set if the wait has a time limit.
	began, timed bool
	// runCPU is the CPU time that the thread has used with this stack, from the first reading of its counters on.
	runCPU int64
	usual  usual.Stack
	spin   spin.Stay
	loop   loop.Stay
	// barrier measures for how long the thread has made other ractors wait.
	barrier barrier.Stay
	// poolNS is the time since which all samples show the thread in a pool's code, with the same request or job
	// (poolFor). It is zero if the thread is not in such code, or if its work is not known.
	poolNS  int64
	poolFor sampler.WorkNumber
	// vainNS is when the thread was first seen waiting for a Queue that has items. It is zero if the thread does not
	// wait for such a Queue.
	vainNS int64
	// ending is how the thread shows that the program ends, and endingNS is when this changed. courseNS is the last
	// time after the program's start at which the thread showed no sign of an end. It is zero if there is no such time.
	ending             ending
	endingNS, courseNS int64
	// gate is the gate at which the thread waits, or nil. A gate is a method that lets only some threads in.
	gate                 *gates.Gate
	cpuAt, cpu, runDelay int64
	stateAtRead          gvl.State
	// cpuNS is CPU time of the thread that was not yet added to the sums of a second.
	cpuNS int64
}

// turn follows one ractor's GVL from the time at which a thread gets it until the thread gives it up.
type turn struct {
	ractor sampler.RactorID
	hold   hold
	fromNS int64 // when another thread began to wait; zero if none waits
	delay0 int64
	// cpu0 is the holder's CPU time at fromNS. It was read at cpuAt0.
	cpu0, cpuAt0 int64
	stalled      bool
	counted      bool
	countNS      int64
	waiters      int64
	holderAt     int // index of the holder in the sample; -1 if there is no holder
	// head is the first thread in the GVL's queue, or zero. moved is set if the stack of a waiting thread has changed.
	head  sampler.ThreadID
	moved bool
	// From doubtNS to untilNS, samples were too far apart, so another thread may have held the GVL. Both are zero if
	// there is no such time, or if the threads' counters have proven that no other thread held it.
	doubtNS, untilNS int64
	// turns is how often the holder has got a CPU (sampler.Kernel.Turns). It has not changed since turnsNS.
	turns, turnsNS int64
}

// collector adds up the last seconds for the rules. It is a gvl.Consumer. It gets the times from Intervals. From
// samples it learns the places of threads, how often they move, and which thread holds the GVL.
type collector struct {
	gvl.Ignore
	stream   *stream.Stream
	proc     sampler.Process
	dict     *sampler.Dictionary
	limits   *limits
	lastNS   int64 // time of the last sample that the rules may use
	stops    []stop
	sinceNS  int64 // beginning of the evidence: waits count from here on
	classes  *stackkind.Classes
	threads  []watch // by Interval.Slot; id is zero if no thread has the slot
	tallies  []tally // by Interval.Slot
	keys     []sumKey
	slots    []int // slot of each thread of the newest sample
	ring     [findingsWindowNS/1e9 + 1]second
	cur      *second
	turns    []turn
	peers    account.PeerGroups
	gates    *gates.Gates
	contests contests.Contests
	queues   backlog.Queues
	// takers has, for at most maxTakers SizedQueues, the last thread seen waiting to take from it.
	takers map[uint64]sampler.ThreadID
	growth memory.Growth
	gc     pauses.Watch
	counts [threadCounts]threadCount
	// A peer group is all connections to one remote end. toldGroup is the group that the last text named, and toldCalls
	// the number of calls in this text (steadyCalls).
	toldGroup uint32
	toldCalls float64
	self      account.Meter
	// startNS is when the program began. bootNS is when its start ends. Both are CLOCK_MONOTONIC in ns.
	startNS, bootNS int64
}

// threadCount is the number of threads at one time. The rule thread_leak compares several of them.
type threadCount struct {
	atNS int64
	n    int
}

const (
	// threadCountNS is the interval between counts of threads. threadCounts is how many of these counts are kept: they
	// cover five minutes.
	threadCountNS = 10e9
	threadCounts  = 31
)

func newCollector(s *stream.Stream, p sampler.Process, dict *sampler.Dictionary, l *limits) *collector {
	c := &collector{
		stream: s, proc: p, dict: dict, limits: l, classes: stackkind.New(dict),
		peers: account.PeerGroups{Dict: dict}, gates: gates.New(dict), takers: make(map[uint64]sampler.ThreadID),
	}
	for i := range c.ring {
		c.ring[i] = second{at: -1, sums: make(map[sumKey]int64)}
	}
	c.startNS = p.AttachedNS
	if !p.StartedAt.IsZero() && !p.AttachedAt.IsZero() {
		c.startNS -= p.AttachedAt.Sub(p.StartedAt).Nanoseconds()
	}
	c.bootNS = c.startNS + bootNS
	s.Attach(c)
	return c
}

// extendStartup extends the program's start (bootNS) while the program loads code. ddtop may attach later and see in
// its own first seconds that the program loads code. Then extendStartup assumes that the program has loaded code since
// its beginning.
func (c *collector) extendStartup(b *second) {
	end := (b.at + 1) * 1e9
	if end > max(c.bootNS, c.proc.AttachedNS)+loadedNS {
		return
	}
	load := b.sums[sumKey{dim: dimLoad}]
	c.pending(func(of *second, keys []sumKey, ns int64) {
		if of == b && slices.Contains(keys, sumKey{dim: dimLoad}) {
			load += ns
		}
	})
	if float64(load) >= loadingShare*float64(max(b.sampledNS, 1)) {
		c.bootNS = max(c.bootNS, min(end+loadedNS, c.startNS+maxBootNS))
	}
}

// Tick adds a sample. If a sample shows that the process is stopped, Tick ignores the sample and the time up to the
// next one.
func (c *collector) Tick(k *gvl.Tick) {
	wasStopped := c.stopped()
	if !k.Gap && !wasStopped && c.cur != nil {
		c.spread(k.FromNS, k.ToNS, func(b *second, ns int64) { b.sampledNS += ns })
	}
	if k.Proc.Halted() || k.Stopped {
		c.stop(k.ToNS, frozenBy(k))
		return
	}
	if wasStopped {
		c.stops[len(c.stops)-1].toNS = k.ToNS
	}
	s := k.Sample
	q, of := k.Quality(), *k
	k = &of
	k.First, k.Gap = c.cur == nil, k.Gap || wasStopped
	if wasStopped {
		k.FromNS = c.lastNS
	}
	c.slots, c.lastNS = k.Slots, k.ToNS
	at := k.MidNS
	if k.Gap || k.First {
		c.sinceNS, at = k.ToNS, k.ToNS
	}
	if wasStopped || k.First {
		c.turns = c.turns[:0]
	}
	c.rotate(k.ToNS / 1e9)
	c.cur.quality.Add(&q)
	c.beginTurns()
	for i, slot := range k.Slots {
		if slot < 0 {
			continue
		}
		for slot >= len(c.threads) {
			c.threads = append(c.threads, watch{})
		}
		w, ts := &c.threads[slot], &k.States[i]
		fresh := w.id != ts.Thread
		if fresh {
			*w = watch{id: ts.Thread, slot: slot, stackNS: at, stack: ts.Stack}
		}
		c.one(&s.Threads[i], ts, w, i, at, fresh || k.Gap)
	}
	c.growth.Add(s)
	c.allocated(s, k.States)
	c.contests.Add(k.ToNS, s, k.States, c.proc.Pauses)
	c.queues.Add(s, k.States)
	// Gates are methods that let only few threads in. If all changes of the GVL are known, only samples with all stacks
	// (stack ticks) show enough threads to count them at gates.
	if (!k.Exact || s.Depth == sampler.StackTick) && c.gates.Count(k.ToNS, k.States, c.threadAt(k.Slots)) {
		for i, slot := range k.Slots {
			if slot >= 0 {
				c.rests(&c.threads[slot], &k.States[i])
			}
		}
	}
	c.endTurns(k, at)
	c.gcTime(k)
	c.self.Feed(s.Self.CPUNS, s.TimeNS)
	c.cur.gc, c.cur.proc, c.cur.self = s.GC, s.Proc, c.self
	c.countThreads(len(s.Threads), k.ToNS)
}

// allocated adds to the sums of a stack the objects that were allocated just before this stack was read (AllocPair).
func (c *collector) allocated(s *sampler.Sample, states []gvl.ThreadState) {
	if s.GC.Pair.Objects == 0 || len(c.cur.sums) >= maxSums {
		return
	}
	for i := range states {
		if states[i].Thread == s.GC.Pair.Thread && states[i].Stack != 0 {
			n, id := int64(s.GC.Pair.Objects), uint64(states[i].Stack)
			c.cur.sums[sumKey{dim: dimAlloc, id: id}] += n
			c.cur.sums[sumKey{dim: dimAllocSquares, id: id}] += n * n
			break
		}
	}
}

func (c *collector) Ended(slot int, _ int64) {
	if slot < len(c.tallies) {
		c.add(&c.tallies[slot])
		c.tallies[slot] = tally{}
	}
	if slot < len(c.threads) {
		c.addCPU(&c.threads[slot])
		c.threads[slot] = watch{}
	}
}

// addAll adds to the sums of the seconds the time that tallies and watches still keep. After this, the sums are
// complete.
func (c *collector) addAll() {
	for i := range c.tallies {
		c.add(&c.tallies[i])
	}
	for i := range c.threads {
		c.addCPU(&c.threads[i])
	}
}

// addCPU adds a thread's CPU time to the current second.
func (c *collector) addCPU(w *watch) {
	if w.cpuNS != 0 && len(c.cur.sums) < maxSums {
		c.cur.sums[sumKey{dim: dimCPU, id: uint64(w.id)}] += w.cpuNS
	}
	w.cpuNS = 0
}

func (c *collector) one(t *sampler.Thread, ts *gvl.ThreadState, w *watch, i int, at int64, fresh bool) {
	changed := fresh || !ts.Unchanged
	if t.Quality&(sampler.StackFresh|sampler.StackFailed) == sampler.StackFresh && (ts.Stack != w.stack || fresh) {
		w.moved = w.moved || !fresh && !w.idle
		if !fresh {
			w.usual.Stayed(w.stack, at-w.stackNS)
		}
		if !fresh && w.state == gvl.Waiting && ts.State == gvl.Waiting {
			c.turn(ts.Ractor).moved = true
		}
		w.stack, w.stackNS, w.runCPU = ts.Stack, at, 0
		w.flags = c.classes.Of(ts.Stack).With(t.Serving.Work)
		changed = true
	} else if fresh {
		w.flags = c.classes.Of(ts.Stack).With(t.Serving.Work)
	} else if changed && w.state == gvl.IO && ts.State == gvl.IO && ts.SinceNS > w.sinceNS && ts.Stack == w.stack {
		// The thread waits at the same place as before, but this is a new wait. Between two samples it left this place
		// and came back.
		w.moved = w.moved || !w.idle
		w.usual.Stayed(w.stack, at-w.stackNS)
		w.stackNS = at
	}
	if changed {
		again := !fresh && (ts.State != w.state || ts.SinceNS > w.sinceNS)
		if again && (w.state == gvl.IO || w.group == groupSleep) {
			c.called(w, ts.SinceNS)
		}
		w.began = !fresh && (w.began || again)
		w.state, w.sinceNS, w.stillNS, w.group = ts.State, ts.SinceNS, ts.StillNS, c.peers.GroupOf(ts.Detail.Peer)
		if ts.State == gvl.Sleeping && resting.AtWork(gvl.Sleeping, w.flags) {
			w.group = groupSleep
		}
		c.rests(w, ts)
		c.takes(w, ts)
	}
	if changed {
		w.inPool(c.dict, t.Serving.Work, at)
	}
	w.spin.Add(t, ts)
	w.loop.Add(t, ts, fresh)
	w.barrier.Add(t, ts, fresh)
	w.vainly(t, ts, at)
	w.ends(c.endingOf(t, ts, w.flags), at, c.bootNS)
	w.listens, w.timed = ts.State == gvl.IO && t.Kernel.Listens, t.Status == sampler.Stopped
	// A gate is a method that lets only few threads in. A wait at a gate is left out here, because the rule gateWait
	// judges it by the number of waiting threads.
	if w.waitsForPool(ts.State) && w.gate == nil {
		// With an earlier stack, the thread may have been idle. So count only the time with the present stack.
		if ns := min(ts.DurationNS(), at-w.stackNS); ns > c.cur.poolNS {
			c.cur.poolNS, c.cur.poolStack = ns, ts.Stack
			c.cur.poolTold = ts.Told()
			c.cur.poolTold.NS = min(c.cur.poolTold.NS, ns)
		}
	}
	c.counters(t, w)
	if ts.State == gvl.Waiting || ts.State.Held() {
		c.addTurn(ts, i)
	}
}

// rests sets whether a thread is idle (at rest), and the gate at which it waits. A gate is a method that lets few
// threads in.
func (c *collector) rests(w *watch, ts *gvl.ThreadState) {
	w.gate = c.gates.Closed(ts.State, &ts.Detail, w.stack)
	w.idle = w.gate == nil && c.idle(ts.State, &ts.Detail, w.flags, w.group)
}

// threadAt returns a function that the type Gates needs. This function returns the stack and flags of a sample's i-th
// thread.
func (c *collector) threadAt(slots []int) func(int) gates.Thread {
	return func(i int) gates.Thread {
		if slot := slots[i]; slot >= 0 {
			return gates.Thread{Stack: c.threads[slot].stack, Flags: c.threads[slot].flags}
		}
		return gates.Thread{}
	}
}

// maxTakers limits the number of queues in takers. If it is reached, takers is emptied and filled again.
const maxTakers = 256

// takes records a thread that waits to take from a SizedQueue.
func (c *collector) takes(w *watch, ts *gvl.ThreadState) {
	d := &ts.Detail
	if ts.State != gvl.Parked || d.Kind != "SizedQueue" || d.Object == 0 || strings.HasSuffix(code.Innermost(c.dict, w.stack), "#push") {
		return
	}
	if len(c.takers) >= maxTakers {
		clear(c.takers)
	}
	c.takers[d.Object] = ts.Thread
	c.queues.Takes(d.Object, ts.Thread)
}

// waitsForPool reports whether a thread waits for a connection of a pool.
func (w *watch) waitsForPool(s gvl.State) bool {
	return (w.flags&stackkind.Pool != 0 || w.gate != nil) && (s == gvl.Parked || s == gvl.Sleeping)
}

// idle reports whether a thread is at rest: it waits for work, for a client or until a certain time. A thread that
// serves a request or does a job is never at rest, whatever it waits for.
func (c *collector) idle(s gvl.State, d *gvl.Detail, flags stackkind.Flags, group uint32) bool {
	serves := flags.Serves()
	switch s {
	case gvl.Parked, gvl.Sleeping:
		return flags&stackkind.Pool == 0 && !serves
	case gvl.IO:
		switch {
		case serves:
			return false
		case d.Op == gvl.OpAccept, d.Op == gvl.OpSelect, d.Op == gvl.OpPoll && d.FDs != 1, flags&stackkind.Idle != 0:
			return true
		case strings.HasPrefix(d.Syscall, "epoll_"):
			return true // an event loop, which waits for its fibers and clients
		}
		return group != 0 && c.peers.Group(group).Inbound
	case gvl.Unknown:
		return true
	}
	return false
}

// Waited adds a wait for the GVL. If the wait began before sinceNS, where the evidence begins, only the part since
// sinceNS is added.
func (c *collector) Waited(w *gvl.Wait) {
	if from := max(w.FromNS, c.sinceNS); c.cur != nil && !c.stopped() && w.ToNS > from {
		x := *w
		before := from - w.FromNS // this part of the wait was not observed
		x.FromNS, x.LeastNS, x.MostNS = from, max(w.LeastNS-before, 0), w.MostNS-before
		c.cur.waits.Add(&x)
	}
}

// rotate makes sec the current second.
func (c *collector) rotate(sec int64) {
	if c.cur == nil {
		c.cur = c.secondAt(sec)
	}
	for c.cur.at < sec {
		next := c.cur.at + 1
		if behind := sec - next; behind > int64(len(c.ring)) {
			next = sec - int64(len(c.ring))
		}
		c.addAll()
		c.extendStartup(c.cur)
		// After a gap, the old and the new second can have the same place in the ring. secondAt clears this place, so
		// copy the readings of cur first.
		gc, proc, self := c.cur.gc, c.cur.proc, c.cur.self
		c.cur = c.secondAt(next)
		c.cur.gc, c.cur.proc, c.cur.self = gc, proc, self
	}
}

// counters adds the CPU time and run delay of a thread that held the GVL, or worked without it, since the last reading.
func (c *collector) counters(t *sampler.Thread, w *watch) {
	k := &t.Kernel
	if k.CPUAtNS == 0 || k.CPUAtNS == w.cpuAt || t.TID == 0 {
		return
	}
	if w.cpuAt != 0 && k.CPUNS >= w.cpu && k.RunDelayNS >= w.runDelay {
		w.cpuNS += k.CPUNS - w.cpu
		if w.cpuAt >= w.stackNS {
			w.runCPU += k.CPUNS - w.cpu
		}
		switch {
		case w.state.Held() && w.stateAtRead.Held():
			c.cur.holderCPU += k.CPUNS - w.cpu
			c.cur.holderWait += k.RunDelayNS - w.runDelay
		case w.state == gvl.Native && w.stateAtRead == gvl.Native:
			c.cur.nativeCPU += k.CPUNS - w.cpu
			c.cur.nativeWait += k.RunDelayNS - w.runDelay
		}
	}
	w.cpuAt, w.cpu, w.runDelay, w.stateAtRead = k.CPUAtNS, k.CPUNS, k.RunDelayNS, w.state
}

func (c *collector) countThreads(n int, now int64) {
	slot := &c.counts[(now/threadCountNS)%threadCounts]
	if slot.atNS == 0 || now-slot.atNS > threadCountNS {
		*slot = threadCount{now, n}
	}
}
