package account

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxHolds limits how many holds of all locks together are remembered. They take 4 MB, which is enough for a minute
	// at a thousand holds a second.
	maxHolds = 1 << 16
	// maxHeldLocks limits how many locks are watched at a time.
	maxHeldLocks = 1024
	// manyThreads is the largest number of threads for which a sample with stacks (stack tick) reads all waiting
	// threads. If there are more threads, each sample reads some of them, in turn. Then turnNS limits the age of a
	// thread's state, in ns (sampler.StackFresh).
	manyThreads = 32
	turnNS      = int64(50e6)
	// forgetLockNS is how long a lock is remembered while no thread waits for it, in ns.
	forgetLockNS = int64(10e9)
)

// A LockHold is one hold of a Mutex or Monitor whose beginning and end samples have shown. Samples show the holder of a
// lock only while another thread waits for the lock.
type LockHold struct {
	Object uint64
	Kind   string // as in Detail.Kind
	Thread sampler.ThreadID
	// FromNS and ToNS are the beginning and the end of the hold, CLOCK_MONOTONIC in ns. Each is the middle between two
	// samples. GapNS is the possible error of the length ToNS − FromNS. FromNS is zero if the thread already held the
	// lock when another thread first waited for it. In this case the thread has held the lock at least since SeenNS.
	FromNS, ToNS, GapNS, SeenNS int64
	// Perhaps is set if a waiting thread was woken during the hold. The hold may then consist of several holds of the
	// same thread.
	Perhaps bool
	// LeastNS is the longest period of the hold, in ns, in which no waiting thread was woken. In this period, the lock
	// was certainly held without a break.
	LeastNS int64
}

// mostNS returns an upper bound of the length of a hold that was seen to begin, in ns.
func (h *LockHold) mostNS() int64 { return h.ToNS - h.FromNS + h.GapNS }

// LockHolds finds the holders of the locks that threads wait for. It is a gvl.Consumer. The zero value is ready to use.
// Every sample shows which threads wait, but only samples that read stacks also show the holders.
type LockHolds struct {
	gvl.Ignore
	open map[uint64]*openHold
	// ring has the holds that ended, in the order of their ends. Once ring is full, next is the index of the oldest.
	ring  []LockHold
	next  int
	seen  []lockSeen // memory that Tick reuses
	ticks uint64
	waits lockWaits
}

// openHold is a hold in progress.
type openHold struct {
	LockHold
	// lastNS is when a sample last showed the hold. freeNS is the time of the first later sample without the hold. It
	// is zero if all later samples showed it.
	lastNS, freeNS int64
	sureNS         int64              // from the sample at this time until lastNS, the lock was certainly not released
	waiters        []sampler.ThreadID // the waiting threads at lastNS
	left           bool               // one of the waiters has stopped waiting since lastNS
	tick           uint64
	// next is another thread that samples since nextNS show as the holder. If there are more than manyThreads threads,
	// a sample can show a state that is up to turnNS old. So next replaces the holder only after turnNS.
	next   sampler.ThreadID
	nextNS int64
}

// lockSeen is a thread that waits for a lock, in one sample.
type lockSeen struct {
	object         uint64
	kind           string
	holder, waiter sampler.ThreadID
	movedNS        int64 // ThreadState.MovedNS
}

func (l *LockHolds) Tick(t *gvl.Tick) {
	fresh := t.Sample == nil || t.Depth == sampler.StackTick
	stale := int64(0)
	if len(t.States) > manyThreads {
		stale = turnNS
	}
	if l.open == nil {
		l.open = make(map[uint64]*openHold)
	}
	if !fresh && len(l.open) == 0 {
		return // holders of locks are read with stacks only, so this sample shows nothing new
	}
	l.ticks++
	l.seen = l.seen[:0]
	for i := range t.States {
		if ts := &t.States[i]; ts.State == gvl.Lock && ts.Detail.Object != 0 {
			l.seen = append(l.seen, lockSeen{ts.Detail.Object, ts.Detail.Kind, ts.Detail.Holder, ts.Thread, ts.MovedNS})
		}
	}
	if t.Gap {
		clear(l.open) // nothing is known about the time of the gap
	}
	sorting.By(l.seen, func(a, b lockSeen) int {
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

// see updates the hold of a lock. waiters has all threads that wait for this lock in one sample. fresh is true if this
// sample read the holder. stale is the greatest age of a thread's state that may still be used, in ns.
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
		h = &openHold{LockHold: LockHold{Object: object, Kind: waiters[0].kind, Thread: holder, SeenNS: atNS}, lastNS: atNS, sureNS: atNS}
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
	case holder == 0: // the lock changes hands, or its holder could not be read
		if h.freeNS == 0 {
			h.freeNS = atNS
		}
		return
	case holder != h.Thread:
		// If the new holder waited for the lock before, it has had the lock since the first sample that does not show
		// the old holder.
		until := atNS
		if h.freeNS != 0 && slices.Contains(h.waiters, holder) {
			until = h.freeNS
		}
		edge, gap := h.lastNS+(until-h.lastNS)/2, (until-h.lastNS)/2+stale
		h.ToNS, h.GapNS = edge, h.GapNS+gap
		l.add(h.LockHold)
		h.LockHold = LockHold{Object: object, Kind: h.Kind, Thread: holder, FromNS: edge, SeenNS: edge, GapNS: gap}
		h.sureNS = atNS
	default:
		woken := h.left
		for i := range waiters {
			woken = woken || waiters[i].movedNS > h.sureNS && slices.Contains(h.waiters, waiters[i].waiter)
		}
		if woken {
			h.Perhaps, h.sureNS = true, atNS
		}
		h.LeastNS = max(h.LeastNS, atNS-h.sureNS-stale)
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

// LockUse describes how a lock was used in a period, as samples show it.
type LockUse struct {
	// Taken is how often a sample shows a new holder. It is a lower bound of how often the lock was taken, because
	// samples miss short holds.
	Taken int64
	// Held has the lengths of the holds whose beginning and end were seen. Samples miss shorter holds in between. So a
	// length that is not much longer than the time between two samples is an upper bound.
	Held gvl.Lengths
	// perhaps counts the holds that may each be several shorter holds (LockHold.Perhaps).
	perhaps int64
	// HeldNow is how long the thread Now has held the lock at the end of the period. It is a lower bound if the hold
	// began before another thread waited, or if it may be several holds. It is zero if the length is not known.
	HeldNow gvl.Bounded
	Now     sampler.ThreadID // zero if no thread holds the lock, or if the holder is not known
}

// Told returns quantiles of the lengths of the holds. shares are the wanted quantiles, such as 0.5 for the median, and
// must be in ascending order. If some holds may each be several shorter ones (LockHold.Perhaps), all lengths are lower
// bounds. The lengths are zero if nothing is known.
func (u *LockUse) Told(shares ...float64) []gvl.Bounded {
	if u.perhaps > 0 {
		return u.Held.Least(shares...)
	}
	return u.Held.Told(shares...)
}

// Of returns how a lock was used between two times.
func (l *LockHolds) Of(object uint64, fromNS, toNS int64) LockUse {
	var u LockUse
	for i := range l.ring {
		h := &l.ring[(l.next+i)%len(l.ring)]
		if h.Object != object || h.ToNS < fromNS || h.ToNS > toNS {
			if h.Object == object && h.ToNS > toNS && h.SeenNS <= toNS {
				u.now(h, min(h.LeastNS, toNS-h.SeenNS), toNS)
			}
			continue
		}
		u.Taken++
		if h.FromNS != 0 {
			u.Held.AddBounds(min(h.LeastNS, h.mostNS()), h.ToNS-h.FromNS, h.mostNS())
			if h.Perhaps {
				u.perhaps++
			}
		}
	}
	if h := l.open[object]; h != nil && h.SeenNS <= toNS && h.freeNS == 0 {
		u.now(&h.LockHold, max(min(h.lastNS, toNS)-h.sureNS, 0), toNS)
	}
	return u
}

// now sets Now and HeldNow from h, a hold that is in progress at atNS. leastNS is a lower bound of its length: the time
// for which the thread certainly held the lock without a break.
func (u *LockUse) now(h *LockHold, leastNS, atNS int64) {
	u.Now = h.Thread
	switch {
	case h.Perhaps:
		u.HeldNow = gvl.Bounded{NS: leastNS, Bound: gvl.AtLeast}
	case h.FromNS == 0:
		u.HeldNow = gvl.Bounded{NS: atNS - h.SeenNS, Bound: gvl.AtLeast}
	default:
		u.HeldNow = gvl.BoundedOf(leastNS, atNS-h.FromNS+h.GapNS, false)
	}
}

// FromNS returns the time since which all holds are remembered. It is zero if all holds since the start are remembered.
func (l *LockHolds) FromNS() int64 {
	if len(l.ring) < maxHolds {
		return 0
	}
	return l.ring[l.next].ToNS
}

const maxRecentLocks = 100

// Recent returns contended locks with a hold that ended between two times, the latest first. It returns at most
// maxRecentLocks.
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
