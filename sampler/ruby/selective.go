package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// A tick of a process with many threads is selective: it reads only those that take part in the scheduling: the owners, the
// ends of the queue and who is new in it, and who did so a moment ago. Who has been in the queue and still is can't have
// run, and needs no look: the queue only changes at its ends (see queue.go). All others have released the GVL and can't run
// Ruby code without passing through the queue or the owner field, where they are seen; then they are read. What may be late
// is the reason why a thread has released the GVL, and where, when it took the lock and released it again between two ticks:
// until the next stack tick, and in a process of very many threads, whose stack ticks look at those that don't take part in
// turn, for maxStackAgeNS at most.

const (
	// selectiveAbove is the number of threads from which on lock ticks are selective: below, reading all costs as little.
	selectiveAbove = 16
	// turnsAbove is the number of threads from which on stack ticks look at threads that don't take part in turn.
	turnsAbove = 32
	// turns is in how many stack ticks each of them is looked at once.
	turns = 4
	// maxStackAgeNS is how old, in ns, what is known of a thread's stack may get: at low rates every stack tick looks at
	// all.
	maxStackAgeNS = 50_000_000
	// hotNS is how long, in ns, every lock tick reads a thread after it took part in the scheduling, and warmNS how long every
	// stack tick does and the lock ticks do in turn: each in every warmTurns-th.
	hotNS     = 3_000_000
	warmNS    = 100_000_000
	warmTurns = 4
	// selectiveGap is how long, in ns, after the tick before the middle of a queue is taken to stand as it stood: behind a
	// thread that computes a queue stands for 10 or 100 ms, and then empties within a few and fills again, with the same
	// ends now and then.
	selectiveGap = 5_000_000
	// maxSelectiveTries is how often a selective tick is tried again with the threads that turned out to be wanted before
	// all are read.
	maxSelectiveTries = 3
)

// maySelect reports whether a tick may read less than everything.
func (r *Reader) maySelect(depth sampler.Depth) bool {
	if r.era == sampler.EraFlag || !r.allRead {
		return false
	}
	for _, rc := range r.ractors {
		if !rc.queue.known {
			return false
		}
	}
	if r.tooLate(r.now()) {
		return false
	}
	if depth == sampler.StackTick {
		return len(r.order) > turnsAbove && !r.whole
	}
	return len(r.order) > selectiveAbove
}

// tooLate reports whether a tick at nowNS comes so long after the one before that the middle of a queue may be another one.
func (r *Reader) tooLate(nowNS int64) bool {
	if nowNS-r.tickNS <= selectiveGap {
		return false
	}
	for _, rc := range r.ractors {
		if len(rc.queue.members) > queueLead {
			return true
		}
	}
	return false
}

// peek reads the schedulers ahead of a selective tick, to learn whom it has to read. What the tick says is what it sees
// itself, a moment later: taking the time of another reading only when an unexpected thread holds the GVL would make such
// threads' turns look shorter than they are.
func (r *Reader) peek() {
	r.ticks++
	r.read = r.read[:0]
	r.plan.reset()
	r.plan.begin(forSchedulers, nil)
	for _, rc := range r.ractors {
		r.add(rc.base, rc.buf)
	}
	if r.readPlan(&r.plan) != nil {
		return // the tick will say so
	}
	for i, rc := range r.ractors {
		if r.plan.ranges[i].Failed {
			continue
		}
		t := r.threads[attach.Address(le64(rc.buf[r.gvlOff(r.o.gvlOwner):]))]
		rc.owners = [2]*thread{t, t}
		if t != nil {
			t.wanted = r.sample
		}
		r.followQueue(rc) // what it can't follow the tick will find torn, or not
		for _, t := range r.read {
			t.wanted = r.sample
		}
	}
}

// planThreads adds the thread structs to the batch: all, or those that take part and, in a stack tick, those whose turn it is.
func (r *Reader) planThreads(depth sampler.Depth, selective bool) {
	now := r.now()
	if depth == sampler.StackTick {
		r.turn++
	}
	r.read = r.read[:0]
	for i, t := range r.order {
		if !selective || r.needs(t, i, depth, now) {
			t.readIn = r.ticks
			if depth == sampler.StackTick {
				t.stackNS = now
			}
			r.read = append(r.read, t)
		}
	}
	r.plan.begin(forThreads, nil)
	r.addPieces(depth == sampler.StackTick)
}

// needs reports whether a selective tick has to read a thread.
func (r *Reader) needs(t *thread, i int, depth sampler.Depth, now int64) bool {
	stacks := depth == sampler.StackTick
	switch {
	case t.wanted == r.sample, t.asked():
		return true
	case stacks && r.moves != nil && !t.wasActive && t.place < 0:
		return !r.standsStill(t)
	case t.place >= 0:
		// It stands still in the queue, and so does its stack, which is looked at once it is there.
		return t.place < queueLead || stacks && (t.stackNS <= t.movedNS || r.turnOf(t, i, now))
	case t.wasActive, t.hotUntil > now:
		return true
	case t.warmUntil > now:
		return stacks || (readNumber(i)+r.sample)%warmTurns == 0
	}
	return stacks && r.dueAt(t, i, now)
}

// dueAt reports whether a stack tick has to look at a thread that does not take part in the scheduling.
func (r *Reader) dueAt(t *thread, i int, now int64) bool {
	return t.stack.quiet < quietAfter || t.stack.id == 0 || r.turnOf(t, i, now)
}

// turnOf reports whether it is a thread's turn to be looked at in a stack tick, or what is known of it has to be corrected.
func (r *Reader) turnOf(t *thread, i int, now int64) bool {
	return (uint(i)+r.turn)%turns == 0 || now-t.stackNS > maxStackAgeNS || t.info.ID == 0 ||
		t.stack.quality&(sampler.StackPartial|sampler.StackFailed) != 0
}

// takeQueue takes a ractor's queue from what a tick has read, and reports whether that was enough: every thread was read that has to
// be.
func (r *Reader) takeQueue(rc *ractor, selective bool) (enough bool) {
	if r.era == sampler.EraFlag {
		return true
	}
	if !selective {
		r.walkQueue(rc)
		return true
	}
	missing := false
	for _, t := range rc.owners {
		if t != nil && t.readIn != r.ticks {
			t.wanted = r.sample
			missing = true
		}
	}
	outcome := r.followQueue(rc)
	switch {
	case missing, outcome == queueLacksThread:
		for _, t := range r.read {
			t.wanted = r.sample
		}
		return false
	case outcome == queueMoved:
		r.readRest(rc)
		r.setQueue(rc, rc.queue.next[:0], false)
	default:
		r.setQueue(rc, rc.queue.next, true)
	}
	return true
}

// readRest reads a ractor's threads that this tick has not read, when its queue can't be followed: their own words say whether
// they are in it. That is a little later than the rest, and drops nothing.
func (r *Reader) readRest(rc *ractor) {
	batch := r.scratch[:0]
	r.rest = r.rest[:0]
	for _, t := range rc.threads {
		if t.readIn != r.ticks {
			batch = append(batch, attach.Range{Addr: t.addr, Buf: t.buf})
			r.rest = append(r.rest, t)
		}
	}
	r.scratch = batch
	calls, err := r.mem.ReadBatch(batch)
	r.reads.Calls += uint64(calls)
	if err != nil {
		return // the next tick will say so
	}
	for i, t := range r.rest {
		if !batch[i].Failed && le64(t.buf[r.o.thSelf:]) == t.self {
			t.readIn, t.stack.plan.at = r.ticks, -1
			r.read = append(r.read, t)
		}
	}
}

// selectionIntact checks the lists as far as a selective tick has read them: the heads, the counts, and the links of the
// threads read. A thread that came or went changes a count or the end of a list.
func (r *Reader) selectionIntact() bool {
	if !r.ractorsIntact() {
		return false
	}
	node := attach.Address(r.o.thNode)
	for _, rc := range r.ractors {
		n := len(rc.threads)
		if n == 0 || rc.cut {
			continue
		}
		head := r.listHead(rc)
		off := int(head - rc.base)
		if attach.Address(le64(rc.buf[off:])) != rc.threads[0].addr+node ||
			attach.Address(le64(rc.buf[off+8:])) != rc.threads[n-1].addr+node || r.listCount(rc) != n {
			return false
		}
	}
	for _, t := range r.read {
		rc := t.ractor
		n := len(rc.threads)
		if rc.cut {
			continue
		}
		prev, next := r.listHead(rc), r.listHead(rc)
		if t.among > 0 {
			prev = rc.threads[t.among-1].addr + node
		}
		if t.among < n-1 {
			next = rc.threads[t.among+1].addr + node
		}
		if attach.Address(le64(t.buf[r.o.thNode:])) != next || attach.Address(le64(t.buf[r.o.thNode+8:])) != prev ||
			le64(t.buf[r.o.thSelf:]) != t.self {
			return false
		}
	}
	return true
}

// listCount is how many threads a ractor says it has (32 bits; on 2.5, 64).
func (r *Reader) listCount(rc *ractor) int {
	off := r.o.vmLivingNum
	if r.o.vmRactorSet >= 0 {
		off = r.o.ractorCnt - r.o.ractorSet
	}
	return int(le32(rc.buf[off:]))
}
