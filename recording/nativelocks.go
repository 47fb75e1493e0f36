package recording

import (
	"fmt"

	"github.com/ddtop/ddtop/sampler"
)

// checkNativeLocks returns an error for locks that a reader of the recording would refuse.
func checkNativeLocks(n *sampler.NativeLocks) error {
	if n == nil {
		return nil
	}
	if len(n.List) > sampler.MaxNativeLocks {
		return fmt.Errorf("%w: %d locks of C code in a sample", errLimit, len(n.List))
	}
	for i := range n.List {
		if waiters := len(n.List[i].Waiters); waiters > sampler.MaxLockWaiters {
			return fmt.Errorf("%w: %d threads wait for a lock", errLimit, waiters)
		}
	}
	return nil
}

// carryNativeLocks writes or reads the locks of C code. If there are any, the number 1 comes first, and then all of
// their fields. The locks change once a second, so they are not written as differences. When reading, carryNativeLocks
// makes a new object, because callers may have kept the previous one.
func carryNativeLocks(w *wire, n *sampler.NativeLocks) *sampler.NativeLocks {
	var next sampler.NativeLocks
	if n != nil {
		next = *n
	}
	if w.uint(bit(n != nil, 1)) == 0 {
		return nil
	}
	next.AtNS = w.time(next.AtNS)
	var list []sampler.NativeLock
	for i := range w.length(len(next.List), sampler.MaxNativeLocks, 1) {
		l := at(next.List, i)
		l.Address = uint64(w.count(int64(l.Address)))
		l.Function, l.Library = w.text(l.Function), w.text(l.Library)
		small(w, &l.State, l.State)
		for _, field := range [...]*int32{&l.Owner, &l.FromPID, &l.Others} {
			w.signed(field, *field)
		}
		small(w, &l.Holder, l.Holder)
		w.name(l.Holder)
		var waiters []sampler.ThreadID
		for k := range w.length(len(l.Waiters), sampler.MaxLockWaiters, 1) {
			id := at(l.Waiters, k)
			small(w, &id, id)
			w.name(id)
			waiters = append(waiters, id)
		}
		l.Waiters = waiters
		list = append(list, l)
	}
	if !w.reading {
		return n
	}
	if w.err() != nil {
		return nil
	}
	next.List = list
	return w.names.NativeLocks(&next)
}
