package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// maxLockWaits limits how many waits for locks are remembered. They take 2 MB, which is enough for half a minute at a
// thousand waits a second.
const maxLockWaits = 1 << 15

// lockWait is a period in which a thread waited for a Mutex or Monitor.
type lockWait struct {
	object       uint64
	kind         string
	stack        sampler.StackID
	thread       sampler.ThreadID
	fromNS, toNS int64
}

// lockWaits remembers which thread waited for which lock, and when.
type lockWaits struct {
	// ring has the waits in the order of their beginnings. Once ring is full, next is the index of the oldest wait. The
	// field all is the number of waits since the start, including those that were dropped.
	ring []lockWait
	next int
	all  int
	last []int // the number of the last wait of a thread, by the thread's slot
}

// LockCost is the time that threads waited for a lock in a period, added up over all threads.
type LockCost struct {
	Object   uint64
	Kind     string // as in Detail.Kind
	WaitedNS int64
	// Stack is the stack of a thread that waited for this lock. A stack can be older than its wait, so only stacks that
	// can belong to a wait for this lock are used (see Costs). Of these waits, Stack comes from the longest. It is zero
	// if there is no such stack.
	Stack     sampler.StackID
	longestNS int64
}

// Interval notes that a thread waited for a lock.
func (l *LockHolds) Interval(i *gvl.Interval) {
	if i.State != gvl.Lock || i.Detail.Object == 0 || i.Slot < 0 {
		return
	}
	w := &l.waits
	for i.Slot >= len(w.last) {
		w.last = append(w.last, -1)
	}
	if n := w.last[i.Slot] - (w.all - len(w.ring)); n >= 0 && n < len(w.ring) {
		x := &w.ring[(w.next+n)%len(w.ring)]
		goesOn := x.thread == i.Thread && x.object == i.Detail.Object && x.toNS == i.FromNS
		if goesOn && (x.stack == i.Stack || x.stack == 0 || i.Stack == 0) {
			x.toNS, x.stack = i.ToNS, max(x.stack, i.Stack)
			return
		}
	}
	x := lockWait{i.Detail.Object, i.Detail.Kind, i.Stack, i.Thread, i.FromNS, i.ToNS}
	w.last[i.Slot] = w.all
	w.all++
	if len(w.ring) < maxLockWaits {
		w.ring = append(w.ring, x)
		return
	}
	w.ring[w.next] = x
	w.next = (w.next + 1) % len(w.ring)
}

// Costs returns, for each lock, how long threads waited for it between two times. The time of a wait in progress is
// included up to the last sample. The stack that was read for a wait can be older than the wait and show other code. So
// the caller passes a function fits, which reports whether a stack can belong to a wait for this kind of lock
// (gvl.FitsLock).
func (l *LockHolds) Costs(fromNS, toNS int64, fits func(stack sampler.StackID, kind string) bool) map[uint64]LockCost {
	out := make(map[uint64]LockCost)
	for i := range l.waits.ring {
		x := &l.waits.ring[i]
		ns := min(x.toNS, toNS) - max(x.fromNS, fromNS)
		if ns <= 0 {
			continue
		}
		c := out[x.object]
		c.Object, c.Kind = x.object, x.kind
		c.WaitedNS += ns
		if ns > c.longestNS && x.stack != 0 && fits(x.stack, x.kind) {
			c.Stack, c.longestNS = x.stack, ns
		}
		out[x.object] = c
	}
	return out
}
