package flamegraph

import (
	"math"

	"github.com/ddtop/ddtop/sampler"
)

// MinAllocTicks is the least number of ticks with a seen allocation that ddtop needs to show shares of allocations.
// With fewer ticks, the relative error of a share is above 10 %, because the error is 1/sqrt(ticks).
const MinAllocTicks = 100

// AllocEstimate is the number of allocated objects, with the data from which each stack's part of them is estimated.
// Objects is exact. The number of objects that one stack allocated is an estimate: the stack's share of Seen,
// multiplied by Objects.
type AllocEstimate struct {
	// Objects is the number of objects allocated in the period, by the collector's own counter.
	Objects int64
	// Seen is the number of objects that were allocated just before a stack was read. Ticks is the number of readings
	// that saw at least one such object.
	Seen, Ticks int64
}

// Enough reports whether there is enough evidence to show shares of allocations (MinAllocTicks).
func (a AllocEstimate) Enough() bool { return a.Ticks >= MinAllocTicks }

// Error returns the expected relative error of a share near 100 %. It is 1/sqrt(Ticks): 0.05 for 400 ticks. A smaller
// share has a larger error: Error divided by the square root of the share. If Ticks is zero, Error is +Inf.
func (a AllocEstimate) Error() float64 { return 1 / math.Sqrt(float64(max(0, a.Ticks))) }

// Allocations returns the number of objects allocated in all entries together, with the evidence for estimates from
// this number.
func (s *Snapshot) Allocations() AllocEstimate {
	t := s.Total()
	return AllocEstimate{Objects: max(0, t.AllocTotal), Seen: t.AllocSeen, Ticks: t.AllocTicks}
}

// Values returns a function that converts an entry's weights to a value of the metric m. Call the returned function
// once for each entry. For Allocations the value is the estimated number of objects, rounded so that all values sum to
// AllocEstimate.Objects. For other metrics it is the weight itself.
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

// allocState is what a Collector remembers from earlier samples to count allocated objects.
type allocState struct {
	known       bool
	movedKnown  bool
	last, moved int64 // the counters of the last sample
	held        int64 // counted objects that are not charged to a key yet
	// key is the Key of the last stack in which a sample counted new objects (sampler.AllocPair). found is true if the
	// current sample counted new objects. The field had is true if any sample so far has counted some. key is set only
	// if had is true.
	key        Key
	found, had bool
}

// allocations finds the objects that were allocated just before a stack was read, and charges them to the Key of this
// stack. It also counts all objects since the last sample. Ruby can count an object as allocated that compaction has
// only moved. Such objects are subtracted a few ms later, when their number is known.
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
		// Ruby's counter of allocated objects can decrease, but only in a process with several ractors, which lose
		// counts (docs/internals/gc.md#counting-allocations).
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

// flushAllocations charges the objects that were counted but not charged to a key yet (held). All of them go to the
// last key.
func (c *Collector) flushAllocations(at int64) {
	if a := &c.alloc; a.had && a.held != 0 {
		c.emit(at, a.key, Weights{AllocTotal: a.held})
	}
	c.alloc = allocState{}
}
