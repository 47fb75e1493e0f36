package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// The queue for a GVL is a list of threads. A thread that wants the lock goes to the end, and the first thread gets the
// lock. A selective tick (selective.go) reads only some threads. It need not read all threads in the queue: if it knows
// the threads at both ends, the threads between them have kept their places.
//
// There are rare exceptions. Up to 3.2 a waiter whose timer ran out can leave from the middle, and take a lock that is
// free for a moment. On head (Ruby's development branch) a thread can go in front. ddtop marks a queue as torn if the
// members that a tick reads contradict it, or if the scheduler's count differs (3.3 and later). The next tick reads all
// of a torn queue. Ticks that read stacks read the members in turn, so an error can last for maxStackAgeNS at most.

const (
	// queueLead is how many threads at the front of the queue are read in every tick, because they will run next.
	queueLead = 2
	// maxFetched limits how many threads of a queue a tick reads one by one, each in a call of its own.
	maxFetched = 64
)

// queueOutcome is the result of finding out which threads are in a queue.
type queueOutcome uint8

const (
	// queueFollowed means that the queue is known.
	queueFollowed queueOutcome = iota
	// queueMoved means that the nodes that were read do not form a queue. Either the queue changed during the read, or
	// its middle changed since the last tick.
	queueMoved
	// queueLacksThread means that threads have left the queue, but this tick has not read them. They are marked as
	// wanted, so that ddtop reads them when it tries again.
	queueLacksThread
)

// queue is the list of a ractor's threads that wait for its GVL.
type queue struct {
	// members are the threads that the queue had at the last tick, in order. known is true if the list is complete.
	members []*thread
	known   bool
	// next is the queue that this tick builds, from its front on. tail collects the queue's end, last thread first.
	next, tail []*thread
	fetched    int
}

// gvlReader reads which threads own the GVLs, and which threads wait in the queues of the GVLs.
type gvlReader struct {
	*target
	list *threadList
	// rest is the buffer of the method readRest.
	rest []*thread
	// currentEC is the address of ruby_current_execution_context_ptr, where Ruby 2.5 stores the current execution
	// context. It is zero on other releases. ddtop reads the content into currentECBuf.
	currentEC    attach.Address
	currentECBuf [8]byte
}

// forget empties the queue. The caller must set the field place of each thread that was in it to -1.
func (q *queue) forget() {
	q.members, q.known = q.members[:0], false
}

func (r *gvlReader) nextInQueue(t *thread) attach.Address {
	return attach.Address(le64(t.buf[r.o.ThReadyNode:]))
}

func (r *gvlReader) prevInQueue(t *thread) attach.Address {
	return attach.Address(le64(t.buf[r.o.ThReadyNode+8:]))
}

func (r *gvlReader) queueNode(t *thread) attach.Address {
	return t.addr + attach.Address(r.o.ThReadyNode)
}

// threadOfNode returns the thread to which a node of the queue's list belongs. It is nil if ddtop does not follow that
// thread.
func (r *threadList) threadOfNode(node attach.Address) *thread {
	return r.threads[node-attach.Address(r.o.ThReadyNode)]
}

// walkQueue builds the list of threads in a ractor's queue, in a tick that has read every thread.
func (r *gvlReader) walkQueue(rc *ractor) {
	q := &rc.queue
	off := r.gvlOff(r.o.GVLQueue)
	head := rc.base + attach.Address(off)
	prev, node := head, attach.Address(le64(rc.buf[off:]))
	q.next = q.next[:0]
	known := true
	for node != head {
		t := r.list.threadOfNode(node)
		if t == nil || len(q.next) >= len(rc.threads) || r.prevInQueue(t) != prev {
			known = false
			q.next = q.next[:0]
			break
		}
		q.next = append(q.next, t)
		prev, node = node, r.nextInQueue(t)
	}
	r.setQueue(rc, q.next, known)
}

func (r *gvlReader) setQueue(rc *ractor, next []*thread, known bool) {
	q := &rc.queue
	for _, t := range next {
		if t.place < 0 {
			t.movedNS = r.list.tickNS
		}
	}
	for _, t := range q.members {
		t.place = -1
	}
	for i, t := range next {
		t.place = i
	}
	q.members, q.next, q.known = next, q.members, known
}

// followQueue finds out which threads are in the queue in this tick, and stores them in queue.next. It takes the queue
// of the last tick and applies the changes at both ends. It reads each thread that is new at an end, unless this tick
// has read it already. The links of that thread prove its place.
func (r *gvlReader) followQueue(rc *ractor) queueOutcome {
	q := &rc.queue
	q.fetched = 0
	off := r.gvlOff(r.o.GVLQueue)
	head := rc.base + attach.Address(off)
	first, last := attach.Address(le64(rc.buf[off:])), attach.Address(le64(rc.buf[off+8:]))
	kept, behind, ok := r.followTail(rc, head, last)
	if !ok {
		return queueMoved
	}
	q.next = q.next[:0]
	from := kept + 1 // index of the first member that is kept
	if kept < 0 {
		if first != behind {
			return queueMoved
		}
	} else if from, ok = r.followFront(rc, head, first, kept); !ok {
		return queueMoved
	}
	lead := len(q.next)
	q.next = append(q.next, q.members[from:kept+1]...)
	for i := len(q.tail) - 1; i >= 0; i-- {
		q.next = append(q.next, q.tail[i])
	}
	if f := r.o.GVLQueueCount; f.Known() {
		f.Offset = r.gvlOff(f.Offset)
		if int(f.In(rc.buf)) != len(q.next) {
			return queueMoved
		}
	}
	for i := lead; i < lead+kept+1-from; i++ {
		t := q.next[i]
		if t.readIn != r.list.ticks {
			continue
		}
		prev, next := head, head
		if i > 0 {
			prev = r.queueNode(q.next[i-1])
		}
		if i < len(q.next)-1 {
			next = r.queueNode(q.next[i+1])
		}
		if !r.queued(t) || r.prevInQueue(t) != prev || r.nextInQueue(t) != next {
			return queueMoved
		}
	}
	return r.followGone(q.members[:from], q.members[kept+1:])
}

// followTail walks from the node last toward the front of the queue. It stops at the first thread that is still in its
// old place. kept is this thread's index, or -1 if there is none. The threads behind it are new and go to queue.tail.
// behind is the node of the first new thread, or head if none is new. ok is false if the queue cannot be followed.
func (r *gvlReader) followTail(rc *ractor, head, last attach.Address) (kept int, behind attach.Address, ok bool) {
	q := &rc.queue
	q.tail = q.tail[:0]
	kept, behind = len(q.members)-1, head
	for node := last; node != head; {
		t := r.list.threadOfNode(node)
		if t == nil || len(q.tail) > len(rc.threads) {
			return 0, 0, false
		}
		for kept >= 0 && r.hasLeft(q.members[kept]) {
			kept--
		}
		if kept >= 0 && t == q.members[kept] && r.inPlace(t, q.members[:kept], head) {
			return kept, behind, true
		}
		if !r.meet(rc, t) || r.nextInQueue(t) != behind {
			return 0, 0, false
		}
		q.tail = append(q.tail, t)
		behind, node = node, r.prevInQueue(t)
	}
	return -1, behind, true
}

// followFront walks from the node first toward the end of the queue. It stops at the first thread whose index in the
// last tick's queue was at most kept, and returns this index. The threads in front of this thread go to queue.next. ok
// is false if there is no such thread, or if the queue cannot be followed.
func (r *gvlReader) followFront(rc *ractor, head, first attach.Address, kept int) (from int, ok bool) {
	q := &rc.queue
	before := head
	for node := first; node != head; {
		t := r.list.threadOfNode(node)
		if t == nil || t.met == r.list.ticks || len(q.next) > len(rc.threads) {
			return 0, false
		}
		if t.place >= 0 && t.place <= kept && q.members[t.place] == t {
			return t.place, true
		}
		if !r.meet(rc, t) || r.prevInQueue(t) != before {
			return 0, false
		}
		q.next = append(q.next, t)
		before, node = node, r.nextInQueue(t)
	}
	return 0, false
}

// followGone checks that the threads in parts have left the queue. If this tick has not read a thread, followGone marks
// it as wanted, so that the next try reads it.
func (r *gvlReader) followGone(parts ...[]*thread) queueOutcome {
	missing := false
	for _, part := range parts {
		for _, t := range part {
			switch {
			case t.met == r.list.ticks:
			case t.readIn != r.list.ticks:
				t.wanted = r.list.sample
				missing = true
			case r.queued(t):
				return queueMoved
			}
		}
	}
	if missing {
		return queueLacksThread
	}
	return queueFollowed
}

// hasLeft reports whether ddtop knows that a thread has left its place in the queue.
func (r *gvlReader) hasLeft(t *thread) bool {
	return t.met == r.list.ticks || t.readIn == r.list.ticks && !r.queued(t)
}

// inPlace reports whether t still comes after the same thread in the queue, or is now the first. before are the threads
// that were in front of t. If this tick has not read t, inPlace assumes that t is in place and returns true.
func (r *gvlReader) inPlace(t *thread, before []*thread, head attach.Address) bool {
	if t.readIn != r.list.ticks {
		return true
	}
	prev := r.prevInQueue(t)
	return prev == head || len(before) > 0 && prev == r.queueNode(before[len(before)-1])
}

// meet records in t.met that this tick has found t at a new place in the queue. If this tick has not read t yet, meet
// reads it. It returns false if t cannot be read, or if t's own node is not in the queue.
func (r *gvlReader) meet(rc *ractor, t *thread) bool {
	if t.readIn != r.list.ticks {
		if t.ractor != rc || rc.queue.fetched >= maxFetched {
			return false
		}
		rc.queue.fetched++
		r.reads.Calls++
		if r.mem.Read(t.addr, t.buf) != nil || le64(t.buf[r.o.ThSelf:]) != t.self {
			return false
		}
		t.readIn, t.stack.plan.at = r.list.ticks, -1
		r.list.read = append(r.list.read, t)
	}
	if !r.queued(t) {
		return false
	}
	t.met = r.list.ticks
	return true
}

// queued reports whether a thread is in the queue for the GVL. It decides this by the links of the thread's own node.
// Up to 3.2 Ruby also uses this node for the list of threads to be unblocked. The node is in that list while
// unblock.func is set (docs/internals/threads.md#the-gvl-and-its-queue).
func (r *target) queued(t *thread) bool {
	off := r.o.ThReadyNode
	if off < 0 || !linked(t, off) {
		return false
	}
	return r.era == sampler.EraSched || le64(t.buf[r.o.ThUnblockFunc:]) == 0
}

// linked reports whether a thread's node is in a list. A node that was removed points at itself, and an unused node is
// zero.
func linked(t *thread, off int) bool {
	next := le64(t.buf[off:])
	return next != 0 && next != uint64(t.addr)+uint64(off)
}
