package gvl

import (
	"strings"

	"github.com/ddtop/ddtop/sampler"
)

// dim says what a sum of the findings' window is about.
type dim uint8

const (
	dimThread dim = iota // id: thread, and its ractor; by state, idle apart
	dimPeer              // id: peer group; busy io
	dimLock              // id: object
	dimFlag              // id: stack flag; busy time (pool waits count as busy)
	dimOp                // id: index of op; io
	dimGC                // id: stack that collected
	dimCPU               // id: thread; time on a CPU
)

type sumKey struct {
	id     uint64
	ractor sampler.RactorID
	dim    dim
	state  State
	idle   bool
}

// opNames index dimOp.
var opNames = [...]string{OpResolve, OpChild}

// hold is one turn of a thread at the GVL while others waited.
type hold struct {
	thread sampler.ThreadID
	stack  sampler.StackID
	kind   State
	// ns is from the first waiter on, time in the collector and without a CPU left out.
	ns      int64
	waiters int64
}

// second sums one second of the stream.
type second struct {
	at        int64
	sums      map[sumKey]int64
	sampledNS int64
	gcNS      int64
	// loadNS is the time that threads load code, or wait for the GVL to do so.
	loadNS int64
	waits  Histogram
	// longest is the longest hold that went on in this second; stuckNS the time of all holds beyond the limit.
	longest hold
	stuckNS int64
	// pause is the longest collection, by the time it had a CPU; lackedNS is what long ones that ended here had none.
	pause    pause
	lackedNS int64
	// poolNS is the longest wait for a pool's connection that went on in this second, so far; poolStack where.
	poolNS    int64
	poolStack sampler.StackID
	// What threads had of a CPU, and what they lacked of one, while they held the GVL and while they worked without it.
	holderCPU, holderWait int64
	nativeCPU, nativeWait int64
	// gc and proc are the last readings of the second.
	gc   sampler.GC
	proc sampler.Proc
}

// watch is what the collector remembers of a thread.
type watch struct {
	id      sampler.ThreadID
	ractor  sampler.RactorID
	state   State
	idle    bool
	group   uint32
	peer    sampler.PeerID
	object  uint64
	flags   stackFlags
	op      string
	segNS   int64
	sinceNS int64 // when the state began
	stack   sampler.StackID
	stackNS int64 // since when the stack is the same
	// runNS is the time the GVL was held with this stack; moved: it was seen with another stack before, or came back to this one.
	runNS int64
	// runCPU is what of a CPU it had with this stack, once its counters were read.
	runCPU               int64
	moved                bool
	usual                usualStack
	cpuAt, cpu, runDelay int64
	stateAtRead          State
	cpuTotal             int64
}

// turn follows the hold of one ractor's GVL.
type turn struct {
	ractor sampler.RactorID
	hold   hold
	fromNS int64 // from the first waiter; 0: nobody waits
	delay0 int64
	// cpu0 is the holder's time on a CPU when fromNS was, read at cpuAt0.
	cpu0, cpuAt0 int64
	stalled      bool
	counted      bool
	countNS      int64
	waiters      int64
	holderAt     int // index in the sample; -1: none
	// head is the first in the queue, 0 when that was not seen. moved: a waiting thread has another stack than before.
	head  sampler.ThreadID
	moved bool
}

// collector sums the last seconds for the rules.
type collector struct {
	proc    sampler.Process
	dict    *sampler.Dictionary
	limits  *limits
	lastNS  int64 // time of the last sample
	blind   bool  // nothing is known of the time since then
	sinceNS int64 // no wait is followed further back
	classes *stackClasses
	threads []watch // by Interval.Slot; those without a thread have no id
	slots   []int   // of the sample being fed
	ring    [findingsWindowNS/1e9 + 1]second
	cur     *second
	turns   []turn
	peers   peerGroups
	gcSince int64
	// gcThread is who collects since then; gcCPU its time on a CPU when that began, 0 while that is not known.
	gcThread sampler.ThreadID
	gcCPU    int64
	gcLast   pause
	counts   [threadCounts]threadCount
	// startNS is when the program began, bootNS until when it is taken to be starting, CLOCK_MONOTONIC in ns.
	startNS, bootNS int64
}

// threadCount is the number of threads at a time, for leaks.
type threadCount struct {
	atNS int64
	n    int
}

const (
	// threadCountNS is how often threads are counted, threadCounts how many counts are kept: five minutes.
	threadCountNS = 10e9
	threadCounts  = 31
)

func newCollector(p sampler.Process, dict *sampler.Dictionary, l *limits) *collector {
	c := &collector{
		proc: p, dict: dict, limits: l, classes: newStackClasses(dict),
		peers: peerGroups{dict: dict},
	}
	for i := range c.ring {
		c.ring[i] = second{at: -1, sums: make(map[sumKey]int64)}
	}
	c.startNS = p.AttachedNS
	if !p.StartedAt.IsZero() && !p.AttachedAt.IsZero() {
		c.startNS -= p.AttachedAt.Sub(p.StartedAt).Nanoseconds()
	}
	c.bootNS = c.startNS + bootNS
	return c
}

// extendStartup moves the end of the program's start on while it goes on loading code. Whether it did before it was watched
// is not known: a young one that does so in the first seconds is taken to have done so all along.
func (c *collector) extendStartup(b *second) {
	if end := (b.at + 1) * 1e9; end <= max(c.bootNS, c.proc.AttachedNS)+loadedNS && float64(b.loadNS) >= loadingShare*float64(max(b.sampledNS, 1)) {
		c.bootNS = max(c.bootNS, min(end+loadedNS, c.startNS+maxBootNS))
	}
}

// skip leaves a sample out, of a process that was stopped: what happens in one says nothing of it. The time is a gap.
func (c *collector) skip() { c.blind = c.lastNS != 0 }

// ended forgets a thread that is no longer listed.
func (c *collector) ended(slot int, atNS int64) {
	if slot >= len(c.threads) {
		return
	}
	if c.blind {
		atNS = c.lastNS
	}
	c.flush(&c.threads[slot], atNS)
	c.threads[slot] = watch{}
}

// feed adds a sample.
func (c *collector) feed(k *Tick) {
	s, states := k.Sample, k.States
	c.slots = k.Slots
	st := step{fromNS: k.FromNS, toNS: k.ToNS, midNS: k.MidNS, first: c.lastNS == 0, gap: k.Gap}
	if c.blind {
		st.fromNS, st.gap, c.blind = c.lastNS, true, false
	}
	c.lastNS = st.toNS
	if st.gap || st.first {
		c.sinceNS = st.toNS
	}
	if st.first {
		c.enter(st.toNS / 1e9)
	}
	at := st.midNS
	if st.gap {
		c.flushAll(st.fromNS)
		c.turns = c.turns[:0]
		at = st.toNS
	}
	c.rotate(at, st.gap)
	c.beginTurns()
	for i, slot := range k.Slots {
		if slot < 0 {
			continue
		}
		for slot >= len(c.threads) {
			c.threads = append(c.threads, watch{})
		}
		w, ts := &c.threads[slot], &states[i]
		fresh := w.id != ts.Thread
		if fresh {
			*w = watch{id: ts.Thread, segNS: at, stackNS: at, stack: ts.Stack, ractor: ts.Ractor}
		}
		if st.gap {
			w.segNS = at
		}
		c.one(s, &s.Threads[i], ts, w, i, at, fresh || st.gap)
	}
	c.endTurns(s, states, st, at)
	if !st.gap {
		c.cur.sampledNS += st.toNS - st.fromNS
	}
	c.gcTime(s, states, st)
	c.cur.gc, c.cur.proc = s.GC, s.Proc
	c.countThreads(len(s.Threads), st.toNS)
}

// one takes a thread's state over at the time at.
func (c *collector) one(s *sampler.Sample, t *sampler.Thread, ts *ThreadState, w *watch, i int, at int64, fresh bool) {
	d := &ts.Detail
	if t.Quality&(sampler.StackFresh|sampler.StackFailed) == sampler.StackFresh && (ts.Stack != w.stack || fresh) {
		c.flush(w, at)
		w.moved = w.moved || !fresh && !w.idle
		if !fresh {
			w.usual.stayed(w.stack, at-w.stackNS)
		}
		if !fresh && w.state == Waiting && ts.State == Waiting {
			c.turn(ts.Ractor).moved = true
		}
		w.stack, w.stackNS, w.runNS, w.runCPU = ts.Stack, at, 0, 0
		w.flags = c.classes.of(ts.Stack)
	} else if fresh {
		w.flags = c.classes.of(ts.Stack)
	} else if w.state == IO && ts.State == IO && ts.SinceNS > w.sinceNS && ts.Stack == w.stack {
		// Another wait at the same place: what it did in between fell between two samples.
		w.moved = w.moved || !w.idle
		w.usual.stayed(w.stack, at-w.stackNS)
		w.stackNS = at
	}
	w.sinceNS = ts.SinceNS
	if ts.State != w.state || d.Peer != w.peer || d.Object != w.object || d.Op != w.op || fresh {
		c.flush(w, at)
		w.state, w.peer, w.object, w.op = ts.State, d.Peer, d.Object, d.Op
		w.group = c.peers.of(d.Peer)
	}
	w.idle = c.idle(ts, w)
	if w.waitsForPool(ts.State) {
		// Its stack says since when it waits for this: it may have rested before without having been seen to run.
		if ns := min(ts.DurationNS(), at-w.stackNS); ns > c.cur.poolNS {
			c.cur.poolNS, c.cur.poolStack = ns, ts.Stack
		}
	}
	c.counters(ts.Thread, t, w)
	if ts.State == Waiting || ts.State.Held() {
		c.addTurn(ts, i)
	}
}

// waitsForPool reports whether a thread that is in a state waits for a connection of a pool.
func (w *watch) waitsForPool(s State) bool {
	return w.flags&flagPool != 0 && (s == Parked || s == Sleeping)
}

// idle reports whether a thread rests rather than works: it waits for work, a client or a clock.
func (c *collector) idle(ts *ThreadState, w *watch) bool {
	switch ts.State {
	case Parked, Sleeping:
		return w.flags&flagPool == 0
	case IO:
		d := &ts.Detail
		switch {
		case d.Op == OpAccept, d.Op == OpSelect, d.Op == OpPoll && d.FDs != 1, w.flags&flagIdle != 0:
			return true
		case strings.HasPrefix(d.Syscall, "epoll_"):
			return true // an event loop, which waits for all that its fibers or clients wait for
		}
		return c.peers.inbound(w.group)
	case Unknown:
		return true
	}
	return false
}

// maxSums bounds the sums of a second: 20,000 threads need three each. What comes past it, of a program that makes threads without
// end, is added up for all of them together.
const maxSums = 1 << 16

// flush adds what a thread did since its last flush.
func (c *collector) flush(w *watch, at int64) {
	d := at - w.segNS
	if d <= 0 {
		return
	}
	w.segNS = at
	sums := c.cur.sums
	thread := sumKey{id: uint64(w.id), ractor: w.ractor, state: w.state, idle: w.idle}
	if len(sums) >= maxSums {
		// The sums of all threads stay right.
		thread.id, thread.ractor = 0, 0
		sums[thread] += d
		return
	}
	sums[thread] += d
	if w.state.Held() {
		w.runNS += d
		if w.state == GC && w.stack != 0 {
			sums[sumKey{dim: dimGC, id: uint64(w.stack)}] += d
		}
	}
	if w.flags&flagRequire != 0 && (w.state.Held() || w.state == Waiting) {
		c.cur.loadNS += d
	}
	if w.idle {
		return
	}
	switch w.state {
	case IO:
		if w.group != 0 && w.op != OpResolve { // a name server is dns_slow's, not another service
			sums[sumKey{dim: dimPeer, id: uint64(w.group)}] += d
		}
		for i, op := range opNames {
			if w.op == op {
				sums[sumKey{dim: dimOp, id: uint64(i)}] += d
			}
		}
		if f := w.flags & (flagDB | flagRedis); f != 0 {
			sums[sumKey{dim: dimFlag, id: uint64(f)}] += d
		}
	case Lock:
		if w.object != 0 {
			sums[sumKey{dim: dimLock, id: w.object}] += d
		}
	case Parked, Sleeping:
		sums[sumKey{dim: dimFlag, id: uint64(flagPool)}] += d
	}
}

func (c *collector) flushAll(at int64) {
	for i := range c.threads {
		if w := &c.threads[i]; w.id != 0 {
			c.flush(w, at)
		}
	}
}

// waited counts a wait, as far as the process was followed.
func (c *collector) waited(w *Wait) {
	if from := max(w.FromNS, c.sinceNS); c.cur != nil && !c.blind && w.ToNS > from {
		c.cur.waits.Add(w.ToNS - from)
	}
}

// rotate moves to the second of at.
func (c *collector) rotate(at int64, gap bool) {
	for c.cur.at < at/1e9 {
		next := c.cur.at + 1
		if behind := at/1e9 - next; behind > int64(len(c.ring)) {
			next = at/1e9 - int64(len(c.ring))
		}
		if !gap {
			c.flushAll(next * 1e9)
		}
		c.enter(next)
	}
}

func (c *collector) enter(sec int64) {
	b := &c.ring[sec%int64(len(c.ring))]
	clear(b.sums)
	b.waits.Reset()
	*b = second{at: sec, sums: b.sums, waits: b.waits}
	if c.cur != nil {
		c.extendStartup(c.cur)
		b.gc, b.proc = c.cur.gc, c.cur.proc
	}
	c.cur = b
}

// counters adds CPU time and run delay of threads that held the GVL, or worked without it, at both readings.
func (c *collector) counters(id sampler.ThreadID, t *sampler.Thread, w *watch) {
	k := &t.Kernel
	if k.CPUAtNS == 0 || k.CPUAtNS == w.cpuAt || t.TID == 0 {
		return
	}
	if w.cpuAt != 0 && k.CPUNS >= w.cpu && k.RunDelayNS >= w.runDelay {
		w.cpuTotal += k.CPUNS - w.cpu
		if len(c.cur.sums) < maxSums {
			c.cur.sums[sumKey{dim: dimCPU, id: uint64(id)}] += k.CPUNS - w.cpu
		}
		if w.cpuAt >= w.stackNS {
			w.runCPU += k.CPUNS - w.cpu
		}
		switch {
		case w.state.Held() && w.stateAtRead.Held():
			c.cur.holderCPU += k.CPUNS - w.cpu
			c.cur.holderWait += k.RunDelayNS - w.runDelay
		case w.state == Native && w.stateAtRead == Native:
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

// maxPeerGroups bounds the remote ends that are distinguished for as long as a process is watched.
const maxPeerGroups = 4096
