package flamegraph

import (
	"math"

	"github.com/ddtop/ddtop/sampler"
)

// MinAllocTicks is the number of instants with an allocation below which shares of allocations mean nothing. Their
// relative error, one divided by the root of their number, is above a tenth then.
const MinAllocTicks = 100

// AllocEstimate is the number of allocated objects, with the evidence for which code allocated them. Objects is
// exact. A stack's share of it is its share of Seen.
type AllocEstimate struct {
	// Objects is the number of objects allocated in the period, by the collector's own counter.
	Objects int64
	// Seen is the number of objects allocated within an instant of reading a stack. Ticks is the number of those
	// instants.
	Seen, Ticks int64
}

// Enough reports whether shares mean something.
func (a AllocEstimate) Enough() bool { return a.Ticks >= MinAllocTicks }

// Error is the expected relative error of the share of most of the allocations, 1/sqrt(Ticks): 0.05 for 400 ticks. The
// error of a smaller part is larger, by the square root of its share. Without data it is +Inf.
func (a AllocEstimate) Error() float64 { return 1 / math.Sqrt(float64(max(0, a.Ticks))) }

// Allocations returns the estimate for all entries together.
func (s *Snapshot) Allocations() AllocEstimate {
	t := s.Total()
	return AllocEstimate{Objects: max(0, t.AllocTotal), Seen: t.AllocSeen, Ticks: t.AllocTicks}
}

// Values returns a function that gives a metric's value of each entry's weights. It must be called once for each
// entry. The value is the account itself, or for Allocations the estimated number of objects. Those are rounded so
// that they sum to AllocEstimate.Objects.
func (s *Snapshot) Values(m Metric) func(Weights) int64 {
	if m != Allocations {
		return func(w Weights) int64 { return w.Of(m) }
	}
	a := s.Allocations()
	if a.Seen <= 0 {
		return func(Weights) int64 { return 0 }
	}
	var seen, given int64
	return func(w Weights) int64 {
		seen = min(seen+max(0, w.AllocSeen), a.Seen)
		v := mulDiv(a.Objects, seen, a.Seen) - given
		given += v
		return v
	}
}

// allocState is what a Collector remembers of the allocations.
type allocState struct {
	known       bool
	movedKnown  bool
	last, moved int64 // the counters of the last sample
	held        int64 // objects counted that no key has yet
	// key is the key of the last pair. found is true if the pair belongs to the current sample and there was one.
	key        Key
	found, had bool
}

// allocations charges the objects allocated just before the owner's stack was read, and counts all objects since the
// last sample. If objects moved by compaction count as allocated, they are subtracted some ms later, when their
// number is known.
func (c *Collector) allocations(s *sampler.Sample) {
	a := &c.alloc
	found := a.found
	a.found = false
	if !s.GC.Valid {
		a.known = false
		return
	}
	now, moved := int64(s.GC.Allocated), a.moved
	if s.GCDetail.AtNS != 0 && s.GCDetail.MovesCounted {
		moved = s.GCDetail.Moved
		if !a.movedKnown {
			a.movedKnown, a.moved = true, moved
		}
	}
	if a.known {
		// The counter never goes back except by what several ractors lose (docs/internals/gc.md#counting-allocations).
		a.held += now - a.last - (moved - a.moved)
	}
	a.known, a.last, a.moved = true, now, moved
	a.had = a.had || found
	w := Weights{}
	if found {
		w.AllocSeen = int64(s.GC.Pair.Objects)
		if w.AllocSeen > 0 {
			w.AllocTicks = 1
		}
	}
	if w.AllocSeen > 0 || s.Depth == sampler.StackTick && a.had && a.held != 0 {
		w.AllocTotal, a.held = a.held, 0
		c.emit(s.TimeNS, a.key, w)
	}
}

// flushAllocations gives the retained objects to the last key.
func (c *Collector) flushAllocations(at int64) {
	if a := &c.alloc; a.had && a.held != 0 {
		c.emit(at, a.key, Weights{AllocTotal: a.held})
	}
	c.alloc = allocState{}
}
