package recording

import (
	"fmt"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// Flags that are written before the Queues of a sample.
const (
	queuesKnown = 1 << iota
	queuesCut
	queuesLists  // since version 12
	queuesLeases // since version 12
	queuesUsers  // since version 14
	queuesArrays // since version 14
)

// checkQueues returns an error for queues that a reader would refuse.
func checkQueues(q *sampler.Queues) error {
	if q != nil && (len(q.Accept.Listeners) > sampler.MaxListeners || len(q.Pools) > sampler.MaxPools || len(q.Lists) > sampler.MaxLists ||
		len(q.Leases) > sampler.MaxLeases) {
		return fmt.Errorf("%w: %d listening sockets, %d pools, %d Queues and %d pools of connections in a sample", errLimit,
			len(q.Accept.Listeners), len(q.Pools), len(q.Lists), len(q.Leases))
	}
	return nil
}

// used reports whether a thread is known to use a Queue.
func used(l sampler.List) bool { return len(l.Putters)+len(l.Takers) > 0 }

// isArray reports whether a List is a Ruby Array.
func isArray(l sampler.List) bool { return l.Array }

// carryThreads writes or reads a list of the IDs of threads. The list has at most limit elements.
func carryThreads(w *wire, ids []sampler.ThreadID, limit int) (list []sampler.ThreadID) {
	for i := range w.length(len(ids), limit, 1) {
		list = append(list, sampler.ThreadID(w.uint(uint64(at(ids, i)))))
	}
	return list
}

// carryQueues writes or reads the process's queues. If there are any, the number 1 comes first, and then all numbers in
// the order of their fields. The numbers change once a second, so differences would save little. When reading,
// carryQueues makes a new object, because callers may have kept the previous one.
func carryQueues(w *wire, q *sampler.Queues) *sampler.Queues {
	var next sampler.Queues
	if q != nil {
		next = *q
	}
	if w.uint(bit(q != nil, 1)) == 0 {
		return nil
	}
	a := &next.Accept
	next.AtNS = w.time(next.AtNS)
	flags := w.uint(bit(a.Known, queuesKnown) | bit(a.Cut, queuesCut) | bit(len(next.Lists) > 0, queuesLists) |
		bit(len(next.Leases) > 0, queuesLeases) | bit(slices.ContainsFunc(next.Lists, used), queuesUsers) |
		bit(slices.ContainsFunc(next.Lists, isArray), queuesArrays))
	a.Known, a.Cut = flags&queuesKnown != 0, flags&queuesCut != 0
	a.Why = w.text(a.Why)
	a.Overflows, a.Drops = w.count(a.Overflows), w.count(a.Drops)
	var listeners []sampler.Listener
	for i := range w.length(len(a.Listeners), sampler.MaxListeners, 1) {
		l := at(a.Listeners, i)
		l.Inode = uint64(w.count(int64(l.Inode)))
		l.Address = w.text(l.Address)
		l.Queued, l.Limit = w.int(l.Queued), w.int(l.Limit)
		listeners = append(listeners, l)
	}
	var pools []sampler.Pool
	for i := range w.length(len(next.Pools), sampler.MaxPools, 1) {
		p := at(next.Pools, i)
		small(w, &p.Kind, p.Kind)
		for _, n := range [...]*int64{&p.Threads, &p.Busy, &p.Max, &p.Queued, &p.Clients} {
			*n = w.int(*n)
		}
		pools = append(pools, p)
	}
	var lists []sampler.List
	if flags&queuesLists != 0 {
		for i := range w.length(len(next.Lists), sampler.MaxLists, 1) {
			l := at(next.Lists, i)
			l.Object, l.Name, l.Length = uint64(w.count(int64(l.Object))), w.text(l.Name), w.int(l.Length)
			array := bit(l.Array, 1)
			if w.reading { // l may have the values of the list at this index in the previous sample
				l.Array, l.Putters, l.Takers = false, nil, nil
			}
			if flags&queuesUsers != 0 {
				l.Putters, l.Takers = carryThreads(w, l.Putters, sampler.MaxUsers), carryThreads(w, l.Takers, sampler.MaxUsers)
			}
			if flags&queuesArrays != 0 {
				l.Array = w.uint(array) != 0
			}
			lists = append(lists, l)
		}
	}
	var leases []sampler.Lease
	if flags&queuesLeases != 0 {
		for i := range w.length(len(next.Leases), sampler.MaxLeases, 1) {
			l := at(next.Leases, i)
			l.Queue, l.Size = uint64(w.count(int64(l.Queue))), w.int(l.Size)
			l.Owners = carryThreads(w, l.Owners, sampler.MaxOwners)
			leases = append(leases, l)
		}
	}
	if !w.reading {
		return q
	}
	if w.err() != nil {
		return nil
	}
	a.Listeners, next.Pools, next.Lists, next.Leases = listeners, pools, lists, leases
	return w.names.Queues(&next)
}
