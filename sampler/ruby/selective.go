package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// If a process has many threads, ticks are selective. A selective tick reads only the threads that take part in the
// scheduling, or did so a moment ago: the owners of the GVL, the ends of the queue and the threads that are new in it.
// A thread that stays in the queue cannot have run, because the queue only changes at its ends (see queue.go). All
// other threads have released the GVL. Before they run Ruby code again, a tick sees them in the queue or as owner, and
// reads them.
//
// A thread can take the GVL and release it between two ticks. A selective tick may miss this, and so report an outdated
// reason and place of the release. The next tick that reads stacks corrects this. In a process of very many threads,
// ticks that read stacks read waiting threads in turn, so the correction takes up to maxStackAgeNS.

const (
	// selectiveAbove is a number of threads. If there are more, ticks that read only locks are selective. With fewer
	// threads, it costs no more to read all of them.
	selectiveAbove = 16
	// turnsAbove is a number of threads. If there are more, ticks that read stacks do not read all idle threads, but
	// take turns with them.
	turnsAbove = 32
	// turns is how many ticks that read stacks it takes to read each idle thread once. Each of these ticks reads a part
	// of the idle threads.
	turns = 4
	// maxStackAgeNS limits how old the known stack of a thread may be, in ns. If there are only few ticks per second,
	// every tick that reads stacks reads all threads to keep this limit.
	maxStackAgeNS = 50_000_000
	// hotNS and warmNS are two periods, in ns. hotNS begins when a thread has had or wanted the GVL. During hotNS,
	// every tick reads the thread. warmNS comes after that. During warmNS, every tick that reads stacks reads the
	// thread, and so does one in warmTurns of the other ticks.
	hotNS     = 3_000_000
	warmNS    = 100_000_000
	warmTurns = 4
	// selectiveGap is how long after a tick ddtop assumes that the middle of a queue has not changed, in ns. It must be
	// short, because a queue can empty and fill again within a few ms, sometimes with the same threads at its ends.
	// Before it empties, the queue usually does not move for 10 or 100 ms, while a thread computes.
	selectiveGap = 5_000_000
	// maxSelectiveTries is how often a tick tries to read only some threads, before it reads all. If a try finds that
	// it should have read another thread, the next try reads that thread as well.
	maxSelectiveTries = 3
)

// selection decides which threads a tick reads.
type selection struct {
	*target
	list *threadList
	gvl  *gvlReader
	// whole is true if ticks that read stacks must read every thread.
	whole bool
	// moves returns when a thread last had a CPU. It is nil if that is not known.
	moves Moves
	// entered are the threads that LookAt has requested for the next Read. lookAt is true if the current Read has such
	// threads.
	entered []Entered
	lookAt  bool
}

// maySelect reports whether a tick may read only some of the threads.
func (r *selection) maySelect(depth sampler.Depth) bool {
	if r.era == sampler.EraFlag || !r.list.allRead {
		return false
	}
	for _, rc := range r.list.ractors {
		if !rc.queue.known {
			return false
		}
	}
	if r.tooLate(r.now()) {
		return false
	}
	if depth == sampler.StackTick {
		return len(r.list.order) > turnsAbove && !r.whole
	}
	return len(r.list.order) > selectiveAbove
}

// tooLate reports whether a tick at nowNS is too late for a selective tick. This is so if the last tick was so long ago
// that the middle of a queue may have changed since.
func (r *selection) tooLate(nowNS int64) bool {
	if nowNS-r.list.tickNS <= selectiveGap {
		return false
	}
	for _, rc := range r.list.ractors {
		if len(rc.queue.members) > queueLead {
			return true
		}
	}
	return false
}

// peek reads the schedulers before a selective tick, to learn which threads the tick must read. The tick then reads the
// schedulers again and uses only this second reading. With the first reading, the hold of a thread that gets the GVL
// between the two readings would seem too short.
func (r *selection) peek() {
	r.list.ticks++
	r.list.read = r.list.read[:0]
	r.plan.reset()
	r.plan.begin(forSchedulers, nil)
	for _, rc := range r.list.ractors {
		r.add(rc.base, rc.buf)
	}
	if r.readPlan(&r.plan) != nil {
		return // peek may ignore the error, because the tick itself will report it
	}
	for i, rc := range r.list.ractors {
		if r.plan.ranges[i].Failed {
			continue
		}
		t := r.list.threads[attach.Address(le64(rc.buf[r.gvlOff(r.o.GVLOwner):]))]
		rc.owners = [2]*thread{t, t}
		if t != nil {
			t.wanted = r.list.sample
		}
		// an error here is no problem: the tick reads the queue again and decides whether it is torn
		r.gvl.followQueue(rc)
		for _, t := range r.list.read {
			t.wanted = r.list.sample
		}
	}
}

// planThreads adds the structs of threads to the plan. If selective is false, it adds the structs of all threads.
// Otherwise it adds the threads that take part in the scheduling, or did so a moment ago. In a tick that reads stacks,
// it also adds the threads whose turn it is.
func (r *selection) planThreads(depth sampler.Depth, selective bool) {
	now := r.now()
	if depth == sampler.StackTick {
		r.list.turn++
	}
	r.list.read = r.list.read[:0]
	for i, t := range r.list.order {
		if !selective || r.needs(t, i, depth, now) {
			t.readIn = r.list.ticks
			if depth == sampler.StackTick {
				t.stackNS = now
			}
			r.list.read = append(r.list.read, t)
		}
	}
	r.plan.begin(forThreads, nil)
	r.list.addPieces(depth == sampler.StackTick)
}

func (r *selection) needs(t *thread, i int, depth sampler.Depth, now int64) bool {
	stacks := depth == sampler.StackTick
	switch {
	case t.wanted == r.list.sample, t.asked():
		return true
	case stacks && r.moves != nil && !t.wasActive && t.place < 0:
		return !r.standsStill(t)
	case t.place >= 0:
		// A thread in the queue cannot run, so its stack does not change. If the stack was read since the thread
		// entered the queue, it need not be read again.
		return t.place < queueLead || stacks && (t.stackNS <= t.movedNS || r.turnOf(t, i, now))
	case t.wasActive, t.hotUntil > now:
		return true
	case t.warmUntil > now:
		return stacks || (readNumber(i)+r.list.sample)%warmTurns == 0
	}
	return stacks && r.dueAt(t, i, now)
}

// dueAt reports whether a tick that reads stacks must read a thread that neither has nor wants the GVL.
func (r *selection) dueAt(t *thread, i int, now int64) bool {
	return t.stack.quiet < quietAfter || t.stack.id == 0 || r.turnOf(t, i, now)
}

// turnOf reports whether a tick that reads stacks must read a thread. This is the case if it is the thread's turn, or
// if the thread's known state is too old or incomplete.
func (r *selection) turnOf(t *thread, i int, now int64) bool {
	return (uint(i)+r.list.turn)%turns == 0 || now-t.stackNS > maxStackAgeNS || t.info.ID == 0 ||
		t.stack.quality&(sampler.StackPartial|sampler.StackFailed) != 0
}

// takeQueue makes the list of a ractor's queue from what a tick has read. enough is false if the tick lacks a thread
// that it needs for this.
func (r *gvlReader) takeQueue(rc *ractor, selective bool) (enough bool) {
	if r.era == sampler.EraFlag {
		return true
	}
	if !selective {
		r.walkQueue(rc)
		return true
	}
	missing := false
	for _, t := range rc.owners {
		if t != nil && t.readIn != r.list.ticks {
			t.wanted = r.list.sample
			missing = true
		}
	}
	outcome := r.followQueue(rc)
	switch {
	case missing, outcome == queueLacksThread:
		for _, t := range r.list.read {
			t.wanted = r.list.sample
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

// readRest reads the threads of a ractor that this tick has not read yet. It is called if ddtop cannot follow the queue
// without them. Each thread's own struct shows whether it is queued. These threads are read a little later than the
// others, but the sample is not lost.
func (r *gvlReader) readRest(rc *ractor) {
	batch := r.scratch[:0]
	r.rest = r.rest[:0]
	for _, t := range rc.threads {
		if t.readIn != r.list.ticks {
			batch = append(batch, attach.Range{Addr: t.addr, Buf: t.buf})
			r.rest = append(r.rest, t)
		}
	}
	r.scratch = batch
	calls, err := r.mem.ReadBatch(batch)
	r.reads.Calls += uint64(calls)
	if err != nil {
		return // ignore the error, because the next tick will report it
	}
	for i, t := range r.rest {
		if !batch[i].Failed && le64(t.buf[r.o.ThSelf:]) == t.self {
			t.readIn, t.stack.plan.at = r.list.ticks, -1
			r.list.read = append(r.list.read, t)
		}
	}
}

// selectionIntact checks that no list changed during a selective tick. It compares everything about the lists that the
// tick has read: their heads, their lengths, and the threads' links. If a thread came or went, the length or an end of
// a list has changed.
func (r *threadList) selectionIntact() bool {
	if !r.ractorsIntact() {
		return false
	}
	node := attach.Address(r.o.ThNode)
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
		if attach.Address(le64(t.buf[r.o.ThNode:])) != next || attach.Address(le64(t.buf[r.o.ThNode+8:])) != prev ||
			le64(t.buf[r.o.ThSelf:]) != t.self {
			return false
		}
	}
	return true
}

// listCount returns how many threads a ractor has, according to the ractor's own counter (32 bits; 64 on 2.5).
func (r *threadList) listCount(rc *ractor) int {
	off := r.o.VMLivingNum
	if r.o.VMRactorSet >= 0 {
		off = r.o.RactorCnt - r.o.RactorSet
	}
	return int(le32(rc.buf[off:]))
}
