package ruby

import (
	"errors"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// A tick of a process with many threads reads only those that take part in the scheduling: the owners, who waits, and who did
// so a moment ago. All others have released the GVL and can't run Ruby code without passing through the queue or the owner
// field, where they are seen; then the tick reads everybody. What may be late is the reason why a thread has released the GVL,
// and where, when it took the lock and released it again between two ticks: until the next stack tick, and in a process of
// very many threads, whose stack ticks look at those that don't take part in turn, for coldNS at the most.

const (
	// thinAbove is the number of threads from which on lock ticks are thin: below, reading all costs as little.
	thinAbove = 16
	// turnsAbove is the number of threads from which on stack ticks look at threads that don't take part in turn.
	turnsAbove = 32
	// turns is in how many stack ticks each of them is looked at once.
	turns = 4
	// coldNS is how old, in ns, what is known of a thread's stack may get: at low rates every stack tick looks at all.
	coldNS = 50_000_000
	// hotNS is how long a thread counts as taking part in the scheduling after it did.
	hotNS = 100_000_000
)

// errCold says that a thread that a thin tick has not read takes part in the scheduling.
var errCold = errors.New("a thread that was not read takes part in the scheduling")

// mayThin tells whether a tick may read less than everything.
func (r *Reader) mayThin(depth sampler.Depth) bool {
	if r.era == sampler.EraFlag || !r.allRead {
		return false
	}
	if depth == sampler.StackTick {
		return len(r.order) > turnsAbove && !r.whole
	}
	return len(r.order) > thinAbove
}

// planThreads adds the thread structs to the batch: all, or those of the hot threads and, in a stack tick, those whose turn
// it is.
func (r *Reader) planThreads(depth sampler.Depth, thin bool) {
	now := r.now()
	if depth == sampler.StackTick {
		r.turn++
	}
	for i, t := range r.order {
		if !thin || t.hotUntil > now || depth == sampler.StackTick && r.dueAt(t, i, now) {
			t.readIn = r.ticks
			if depth == sampler.StackTick {
				t.stackNS = now
			}
		}
	}
	r.addPieces(depth == sampler.StackTick)
}

// dueAt tells whether a stack tick has to look at a thread that does not take part in the scheduling.
func (r *Reader) dueAt(t *thread, i int, now int64) bool {
	st := &t.stack
	return (uint(i)+r.turn)%turns == 0 || now-t.stackNS > coldNS || st.quiet < quietAfter || st.id == 0 || t.info.ID == 0 ||
		st.quality&(sampler.StackPartial|sampler.StackFailed) != 0
}

// warm notes who took part in the scheduling.
func (r *Reader) warm(now int64) {
	for _, t := range r.order {
		if t.readIn == r.ticks && r.active(t) {
			t.hotUntil = now + hotNS
		}
	}
}

// cold tells whether an owner or a waiter of a ractor was not read in this tick.
func (r *Reader) cold(rc *ractor) bool {
	for _, t := range rc.owners {
		if t != nil && t.readIn != r.ticks {
			return true
		}
	}
	off := r.gvlOff(r.o.gvlQueue)
	head := rc.base + attach.Address(off)
	node := attach.Address(le64(rc.buf[off:]))
	for hops := 0; node != head && hops < len(rc.threads); hops++ {
		t := r.threads[node-attach.Address(r.o.thReadyNode)]
		if t == nil {
			return false // torn; fillRactor says so
		}
		if t.readIn != r.ticks {
			return true
		}
		node = attach.Address(le64(t.buf[r.o.thReadyNode:]))
	}
	return false
}

// thinIntact checks the lists as far as a thin tick has read them: the heads, the counts, and the links of the threads
// read. A thread that came or went changes a count or the end of a list.
func (r *Reader) thinIntact() bool {
	if !r.ractorsIntact() {
		return false
	}
	for _, rc := range r.ractors {
		n := len(rc.threads)
		if n == 0 || n >= MaxThreads {
			continue
		}
		head := r.listHead(rc)
		off := int(head - rc.base)
		node := attach.Address(r.o.thNode)
		if attach.Address(le64(rc.buf[off:])) != rc.threads[0].addr+node ||
			attach.Address(le64(rc.buf[off+8:])) != rc.threads[n-1].addr+node || r.listCount(rc) != n {
			return false
		}
		for i, t := range rc.threads {
			if t.readIn != r.ticks {
				continue
			}
			prev, next := head, head
			if i > 0 {
				prev = rc.threads[i-1].addr + node
			}
			if i < n-1 {
				next = rc.threads[i+1].addr + node
			}
			if attach.Address(le64(t.buf[r.o.thNode:])) != next || attach.Address(le64(t.buf[r.o.thNode+8:])) != prev ||
				le64(t.buf[r.o.thSelf:]) != t.self {
				return false
			}
		}
	}
	return true
}

// listCount is how many threads a ractor says it has (32 bits, but for 2.5's 64).
func (r *Reader) listCount(rc *ractor) int {
	off := r.o.vmLivingNum
	if r.o.vmRactorSet >= 0 {
		off = r.o.ractorCnt - r.o.ractorBlock
	}
	return int(le32(rc.buf[off:]))
}
