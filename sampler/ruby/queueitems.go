package ruby

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// queueWaitNS is how long a thread must have waited to take an item from a Queue before ddtop reads the Queue, in
	// ns. Most waits are shorter, or their Queue is empty.
	queueWaitNS = int64(1e9)
	// queueLookNS is the interval between two readings of the same Queue, in ns.
	queueLookNS = int64(500e6)
	// maxQueueLooks limits how many Queues a tick reads. Each takes three reads of a few bytes.
	maxQueueLooks = 4
	// maxQueues limits the number of Queues whose last reading ddtop keeps. If there are more, ddtop drops all
	// readings.
	maxQueues = 256
)

// queueLook is the last reading of a Queue.
type queueLook struct {
	atNS  int64
	items bool
}

// queueLooks are the last readings of Queues that threads wait for.
type queueLooks struct {
	of map[uint64]queueLook
	// tick is the tick in which Queues were last read. n is the number of Queues that were read in this tick.
	tick tickNumber
	n    int
}

// hasItems reports whether a thread waits to take an item from a Queue, although the Queue has items. If late is true,
// the tick has no time left, so hasItems returns the result of the last reading.
func (r *blockReader) hasItems(t *thread, late bool) bool {
	b := &t.blocked
	if !b.takes {
		return false
	}
	now := r.list.beganNS
	if now-b.sinceNS < queueWaitNS {
		return false
	}
	l := &r.looks
	look := l.of[b.value.Object]
	if now-look.atNS < queueLookNS || late {
		return look.items
	}
	if l.tick != r.list.ticks {
		l.tick, l.n = r.list.ticks, 0
	}
	if l.n >= maxQueueLooks {
		return look.items
	}
	l.n++
	if len(l.of) >= maxQueues || l.of == nil {
		l.of = make(map[uint64]queueLook)
	}
	look = queueLook{atNS: now, items: r.queueItems(b.value.Object) > 0}
	l.of[b.value.Object] = look
	return look.items
}

// takers are the methods that take an item from a Queue or SizedQueue.
var takers = [...]string{
	"Queue#pop", "Queue#shift", "Queue#deq", "SizedQueue#pop", "SizedQueue#shift", "SizedQueue#deq",
}

// takes reports whether a thread waits to take an item from a Queue. It looks for the methods in takers among the
// thread's innermost frames.
func (r *blockReader) takes(t *thread, kind sampler.BlockKind) bool {
	return (kind == sampler.BlockQueue || kind == sampler.BlockSizedQueue) &&
		r.innermost(t, func(label string) bool { return slices.Contains(takers[:], label) })
}

// queueItems returns the number of items in a Queue. It returns zero if the number cannot be read.
func (r *blockReader) queueItems(queue uint64) (n int64) {
	err := r.dec.Objects.Read(func() (err error) { n, err = r.dec.Objects.Length(queue); return err })
	if err != nil {
		return 0
	}
	return n
}
