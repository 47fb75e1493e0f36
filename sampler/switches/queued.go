package switches

import "slices"

const (
	// maxTicks is how many clock ticks of threads with the GVL are remembered. Two CPUs make 200 in a second.
	maxTicks = 64
	// mostQueueTicks limits how many clock ticks the method share uses. When queueing.ticks reaches it, all sums are
	// halved.
	mostQueueTicks = 256
	// gapNS is the longest time between two holds of the GVL that still count as one time in which the GVL was held.
	gapNS = 100_000
)

// queueing is what ddtop knows of the times in which other threads had the GVL, just before they gave it to a thread.
// This is for Ruby 3.3 and later. There a Mutex or a Queue puts a sleeping thread into the queue for the GVL without
// any thread switch. The thread is only woken when it gets the GVL.
type queueing struct {
	// released is true if the thread had no GVL at its last record, and was not in the queue. sawNS is when a record of
	// another thread has since first shown this thread in the queue. beforeNS is for how long other threads had the GVL
	// until sawNS. Both are zero if there is no such record.
	released        bool
	sawNS, beforeNS int64
	// ticks counts the clock ticks while other threads had the GVL, just before they gave it to the thread. The field
	// queued counts only the ticks that found the thread in the queue.
	ticks, queued int
	// heldNS is how long other threads had the GVL, just before they gave it to the thread, in ns. seenNS is the part
	// of this time after a record has shown the thread in the queue, and unknownNS is the other part. Old times count
	// less, as old ticks do.
	heldNS, seenNS, unknownNS float64
}

// share returns which part of an unknown time (unknownNS) a thread usually waits in the queue. ok is false if too few
// clock ticks came.
//
// No record shows when a thread is put into the queue. But clock ticks come at times that do not depend on what threads
// do. So the share of ticks that find the thread in the queue is also its share of heldNS. A part of its time in the
// queue is known from records (seenNS). The rest belongs to the unknown times.
func (q *queueing) share() (part float64, ok bool) {
	if q.ticks < leastTicks || q.unknownNS == 0 {
		return 0, false
	}
	waited := q.heldNS * float64(q.queued) / float64(q.ticks)
	return min(max((waited-q.seenNS)/q.unknownNS, 0), 1), true
}

// put handles a thread t that was woken when it got the GVL. It returns when another thread put t into the queue for
// the GVL. If this is not known, it returns the time at which t was woken.
func (m *Machine) put(t *thread, r *Record) int64 {
	q := &t.queues
	if r.Before33 || r.WakerOwner != t.address || r.WokenNS <= t.atNS || !q.released {
		return r.WokenNS
	}
	from := max(m.heldFrom(t, r.WokenNS), t.atNS)
	part, known := q.share()
	m.learn(q, from, r.WokenNS)
	if !known {
		return r.WokenNS
	}
	return r.WokenNS - int64(float64(r.WokenNS-from)*part)
}

// learn adds a period to q. In this period other threads had the GVL, until they gave it to the thread of q.
func (m *Machine) learn(q *queueing, from, to int64) {
	for i := range m.ticks {
		ns := m.ticks[(m.tick+maxTicks-1-i)%maxTicks]
		if ns <= from {
			break
		}
		if ns < to {
			if q.ticks++; q.sawNS != 0 && ns >= q.sawNS {
				q.queued++
			}
		}
	}
	unknown := to - from
	if q.sawNS != 0 {
		unknown = min(q.beforeNS, unknown)
	}
	q.heldNS += float64(to - from)
	q.unknownNS += float64(unknown)
	q.seenNS += float64(to - from - unknown)
	if q.ticks >= mostQueueTicks {
		q.ticks, q.queued = q.ticks/2, q.queued/2
		q.heldNS, q.seenNS, q.unknownNS = q.heldNS/2, q.seenNS/2, q.unknownNS/2
	}
}

// heldFrom returns the start of a period that ends at the time ns. In this period, threads other than t held the GVL,
// one after the other.
func (m *Machine) heldFrom(t *thread, ns int64) int64 {
	if h := m.holder; h != nil && h != t {
		ns = min(ns, h.sinceNS)
	}
	for earlier := true; earlier; { // the turns are only roughly in order
		earlier = false
		for i := range m.turns {
			if s := &m.turns[i]; s.tid != t.tid && s.fromNS < ns && s.toNS > ns-gapNS {
				ns, earlier = s.fromNS, true
			}
		}
	}
	return ns
}

// joined records which threads other threads have put into the queue for the GVL, according to r. Usually the GVL's
// holder puts a thread into the queue, so this happened between the holder's last record and r. Until ddtop has learned
// more (queueing), joined assumes the middle of this time. But a thread in r.Joined may also have had a CPU and queued
// by itself. Its next record will show whether it had a CPU at that time.
func (m *Machine) joined(r *Record) {
	middle := r.NS
	if h := m.holder; h != nil && h.atNS < r.NS {
		middle = max(h.atNS, h.sinceNS)
		if h.tid == r.TID {
			middle = max(middle, r.InNS)
		}
		middle += (r.NS - middle) / 2
	}
	for _, address := range r.Joined {
		x := m.threads[m.of[address]]
		if x == nil || x.address != address || address == r.Thread || x.state != released || x.joinedNS != 0 || x.atNS > middle {
			continue
		}
		x.joinedNS, x.queues.sawNS = middle, r.NS
		m.joins = append(m.joins, x)
	}
}

// joinedAt returns when another thread put x into the queue for the GVL. It is called after a record has shown x in the
// queue. Then the holds of other threads just before this record are known.
func (m *Machine) joinedAt(x *thread) int64 {
	q := &x.queues
	q.beforeNS = q.sawNS - max(m.heldFrom(x, q.sawNS), x.atNS)
	if part, known := q.share(); known && q.released {
		return q.sawNS - int64(float64(q.beforeNS)*part)
	}
	return x.joinedNS
}

// queue changes the state of some threads to waiting. These are the threads that other threads have put into the queue
// for the GVL by the time untilNS.
func (m *Machine) queue(untilNS int64) {
	m.joins = slices.DeleteFunc(m.joins, func(x *thread) bool {
		if x.joinedNS > untilNS {
			return false
		}
		if x.joinedNS != 0 && x.state == released && m.threads[x.tid] == x {
			m.move(x, &Record{TID: x.tid, Thread: x.address}, m.joinedAt(x), waiting)
		}
		x.joinedNS = 0
		return true
	})
}
