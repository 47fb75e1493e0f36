package gvl

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxHolds bounds the holds that are remembered, of all locks together: 4 MB. At a thousand a second that is a minute.
	maxHolds = 1 << 16
	// maxHeldLocks bounds the locks that are watched at a time.
	maxHeldLocks = 1024
	// manyThreads is from how many threads on a stack tick looks at those that wait in turn, and turnNS how old what it knows of one
	// may be then (sampler.StackFresh).
	manyThreads = 32
	turnNS      = int64(50e6)
	// forgetLockNS is for how long a lock that nobody waits for any more is remembered.
	forgetLockNS = int64(10e9)
	// surelyShare: the length of a hold is told by its edges where these may be off by less than one in so many parts of it.
	surelyShare = 4
)

// LockHold is one hold of a Mutex or Monitor that was seen to begin and to end. Of a lock only what happens while somebody waits
// for it is seen: who holds it is read with the threads that wait.
type LockHold struct {
	Object uint64
	Kind   string // as in Detail.Kind
	Thread sampler.ThreadID
	// FromNS and ToNS are its edges, CLOCK_MONOTONIC in ns, each the middle between two samples; GapNS is how far they may be off
	// together. FromNS is 0 when the thread held the lock before somebody waited for it: how long is not known, but since SeenNS.
	FromNS, ToNS, GapNS, SeenNS int64
	// Perhaps: who waited was woken meanwhile, so that it may be several holds of the same thread, with others' chances between them.
	Perhaps bool
}

// LockHolds watches who holds the locks that threads wait for. It is a Consumer; the zero value is ready. Who waits is read with
// every sample, who holds a lock with those of the stacks alone.
type LockHolds struct {
	Ignore
	open map[uint64]*openHold
	// ring are the holds that ended, in the order of their ends; next is the place of the oldest once it is full.
	ring  []LockHold
	next  int
	seen  []lockSeen // scratch of Tick
	ticks uint64
}

// openHold is the hold of a lock that is going on.
type openHold struct {
	LockHold
	// lastNS is when it was read last, freeNS the first sample after that without it; 0: there is none.
	lastNS, freeNS int64
	waiters        []sampler.ThreadID // at lastNS
	left           bool               // one of them was seen elsewhere since
	tick           uint64
	// next is the thread that seems to hold it since nextNS, where that may have been read long before.
	next   sampler.ThreadID
	nextNS int64
}

// lockSeen is a thread that waits for a lock, in one sample.
type lockSeen struct {
	object         uint64
	kind           string
	holder, waiter sampler.ThreadID
	moved          bool
}

// Tick takes a sample.
func (l *LockHolds) Tick(t *Tick) {
	fresh := t.Sample == nil || t.Depth == sampler.StackTick
	stale := int64(0)
	if len(t.States) > manyThreads {
		stale = turnNS
	}
	if l.open == nil {
		l.open = make(map[uint64]*openHold)
	}
	if !fresh && len(l.open) == 0 {
		return // who holds a lock is read with stacks only: nothing can be learned
	}
	l.ticks++
	l.seen = l.seen[:0]
	for i := range t.States {
		if ts := &t.States[i]; ts.State == Lock && ts.Detail.Object != 0 {
			l.seen = append(l.seen, lockSeen{ts.Detail.Object, ts.Detail.Kind, ts.Detail.Holder, ts.Thread, ts.MovedNS != 0})
		}
	}
	if t.Gap {
		clear(l.open) // nothing is known of the time between
	}
	slices.SortFunc(l.seen, func(a, b lockSeen) int {
		if a.object != b.object {
			if a.object < b.object {
				return -1
			}
			return 1
		}
		return int(a.waiter) - int(b.waiter)
	})
	for i := 0; i < len(l.seen); {
		n := i + 1
		for n < len(l.seen) && l.seen[n].object == l.seen[i].object {
			n++
		}
		l.see(l.seen[i:n], t.ToNS, fresh, stale)
		i = n
	}
	for object, h := range l.open {
		if h.tick == l.ticks {
			continue
		}
		if h.freeNS == 0 {
			h.freeNS = t.ToNS
		}
		if t.ToNS-h.lastNS > forgetLockNS {
			delete(l.open, object)
		}
	}
}

// see takes all who wait for one lock; fresh: who holds it was read, though up to stale ns before.
func (l *LockHolds) see(waiters []lockSeen, atNS int64, fresh bool, stale int64) {
	object, holder, agree := waiters[0].object, sampler.ThreadID(0), true
	for i := range waiters {
		if id := waiters[i].holder; id != 0 {
			agree = agree && (holder == 0 || id == holder)
			holder = id
		}
	}
	h := l.open[object]
	if h == nil {
		if holder == 0 || !fresh || !agree || len(l.open) >= maxHeldLocks {
			return
		}
		h = &openHold{LockHold: LockHold{Object: object, Kind: waiters[0].kind, Thread: holder, SeenNS: atNS}, lastNS: atNS}
		l.open[object] = h
	}
	h.tick = l.ticks
	for _, id := range h.waiters {
		h.left = h.left || !slices.ContainsFunc(waiters, func(w lockSeen) bool { return w.waiter == id })
	}
	if !fresh || !agree {
		return
	}
	if stale > 0 && holder != h.Thread && holder != 0 {
		if h.next != holder {
			h.next, h.nextNS = holder, atNS
		}
		if atNS-h.nextNS < stale {
			return
		}
	}
	switch {
	case holder == 0: // it changes hands, or that could not be read
		if h.freeNS == 0 {
			h.freeNS = atNS
		}
		return
	case holder != h.Thread:
		// Who waited for it and was gone in the first sample without the old holder had it from then on.
		until := atNS
		if h.freeNS != 0 && slices.Contains(h.waiters, holder) {
			until = h.freeNS
		}
		edge, gap := h.lastNS+(until-h.lastNS)/2, (until-h.lastNS)/2+stale
		h.ToNS, h.GapNS = edge, h.GapNS+gap
		l.add(h.LockHold)
		h.LockHold = LockHold{Object: object, Kind: h.Kind, Thread: holder, FromNS: edge, SeenNS: edge, GapNS: gap}
	default:
		h.Perhaps = h.Perhaps || h.left
		for i := range waiters {
			h.Perhaps = h.Perhaps || waiters[i].moved && slices.Contains(h.waiters, waiters[i].waiter)
		}
	}
	h.lastNS, h.freeNS, h.left, h.next = atNS, 0, false, 0
	h.waiters = h.waiters[:0]
	for i := range waiters {
		h.waiters = append(h.waiters, waiters[i].waiter)
	}
}

func (l *LockHolds) add(h LockHold) {
	if len(l.ring) < maxHolds {
		l.ring = append(l.ring, h)
		return
	}
	l.ring[l.next] = h
	l.next = (l.next + 1) % len(l.ring)
}

// LockUse is how a lock was used in a stretch of time, as far as samples tell.
type LockUse struct {
	// Taken is how often another thread was seen to have it than before: it was taken at least as often.
	Taken int64
	// Held are the lengths of those holds that were seen to begin and to end. AtMost: they may consist of several, or be about as
	// short as the time between two samples, so that shorter ones are missing.
	Held   Histogram
	AtMost bool
	// NowNS is for how long its holder had it at the end of the time; NowAtLeast: it had it before somebody waited for it.
	// NowAtMost: it may be the last of several holds of that thread.
	NowNS      int64
	NowAtLeast bool
	NowAtMost  bool
	Now        sampler.ThreadID // 0: nobody, or it is not known
}

// Of sums up how a lock was used between two times.
func (l *LockHolds) Of(object uint64, fromNS, toNS int64) LockUse {
	var u LockUse
	unsure, n := 0, 0
	for i := range l.ring {
		h := &l.ring[(l.next+i)%len(l.ring)]
		if h.Object != object || h.ToNS < fromNS || h.ToNS > toNS {
			if h.Object == object && h.ToNS > toNS && h.SeenNS <= toNS {
				u.now(h, toNS)
			}
			continue
		}
		u.Taken++
		if h.FromNS == 0 {
			continue
		}
		u.Held.Add(h.ToNS - h.FromNS)
		n++
		if h.Perhaps || h.GapNS*surelyShare > h.ToNS-h.FromNS {
			unsure++
		}
	}
	u.AtMost = unsure*10 > n // a tenth of them moves no quantile far
	if h := l.open[object]; h != nil && h.SeenNS <= toNS && h.freeNS == 0 {
		u.now(&h.LockHold, toNS)
	}
	return u
}

func (u *LockUse) now(h *LockHold, atNS int64) {
	u.Now, u.NowNS, u.NowAtLeast, u.NowAtMost = h.Thread, atNS-h.SeenNS, h.FromNS == 0, h.Perhaps
}

// FromNS is the time from which on all holds are remembered; 0: all there were.
func (l *LockHolds) FromNS() int64 {
	if len(l.ring) < maxHolds {
		return 0
	}
	return l.ring[l.next].ToNS
}

// maxRecentLocks bounds what Recent returns.
const maxRecentLocks = 100

// Recent returns the locks that others had to wait for between two times, the one that changed hands last first: those of which a
// hold ended then.
func (l *LockHolds) Recent(fromNS, toNS int64) []Contended {
	var out []Contended
	seen := make(map[uint64]bool)
	for i := range l.ring {
		h := &l.ring[(l.next+len(l.ring)-1-i)%len(l.ring)]
		if h.ToNS < fromNS || len(out) == maxRecentLocks {
			break
		}
		if h.ToNS <= toNS && !seen[h.Object] {
			seen[h.Object] = true
			out = append(out, Contended{Kind: h.Kind, Object: h.Object, Exclusive: true})
		}
	}
	return out
}

// All returns the holds of a lock that ended, in the order of their ends.
func (l *LockHolds) All(object uint64) []LockHold {
	var out []LockHold
	for i := range l.ring {
		if h := l.ring[(l.next+i)%len(l.ring)]; h.Object == object {
			out = append(out, h)
		}
	}
	return out
}
