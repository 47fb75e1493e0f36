// Package backlog follows the lengths of a program's Queues, and which threads take items from them.
package backlog

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxReadings limits the kept readings of a Queue's length. There is one reading per second.
	maxReadings = 128
	// maxTakers limits how many threads that take from a Queue are remembered.
	maxTakers = 16
	// parts is the number of parts into which the method grown divides a time. A Queue counts as growing only if it is
	// longer in each part than in the previous part.
	parts = 4
	// leastPart is the smallest growth over the whole time for which a Queue counts as growing. It is a share of the
	// Queue's length at the beginning.
	leastPart = .05
)

type reading struct{ atNS, length int64 }

// Queue is a Queue of the program, or an Array that is used like a Queue.
type Queue struct {
	sampler.List
	// Waited has the threads that take from the Queue. Samples showed them waiting for its items, or running code that
	// takes items.
	Waited   []sampler.ThreadID
	readings []reading
}

// Text returns words for the Queue or Array, with its name if it is known.
func (q *Queue) Text() string {
	kind := "Queue"
	if q.Array {
		kind = "Array"
	}
	switch {
	case q.Name != "":
		return "the " + kind + " " + q.Name
	case q.Array:
		return "an Array"
	}
	return "a Queue"
}

// waited remembers a thread that takes from the Queue.
func (q *Queue) waited(id sampler.ThreadID) {
	if len(q.Waited) < maxTakers && !slices.Contains(q.Waited, id) {
		q.Waited = append(q.Waited, id)
	}
}

// Producers returns the threads that put into the Queue and do not take from it.
func (q *Queue) Producers() []sampler.ThreadID {
	return slices.DeleteFunc(slices.Clone(q.Putters), func(id sampler.ThreadID) bool { return slices.Contains(q.Waited, id) })
}

// Queues are the Queues of a program, by address.
type Queues struct {
	of   map[uint64]*Queue
	last *sampler.Queues
}

// Add adds a sample.
func (b *Queues) Add(s *sampler.Sample, states []gvl.ThreadState) {
	if s.Queues != nil && s.Queues != b.last {
		b.last = s.Queues
		b.read(s.Queues)
	}
	if len(b.of) == 0 || s.Depth != sampler.StackTick {
		return
	}
	for i := range states {
		ts := &states[i]
		if ts.State == gvl.Parked && ts.Detail.Kind == "Queue" {
			b.Takes(ts.Detail.Object, ts.Thread)
		}
	}
}

// Takes remembers a thread that waits for the items of a Queue.
func (b *Queues) Takes(object uint64, id sampler.ThreadID) {
	if q := b.of[object]; q != nil {
		q.waited(id)
	}
}

// read adds a reading of the lengths of all Queues. If a Queue is missing in s, it does not exist now or could not be
// read.
func (b *Queues) read(s *sampler.Queues) {
	next := make(map[uint64]*Queue, len(s.Lists))
	for _, l := range s.Lists {
		q := b.of[l.Object]
		if q == nil {
			q = new(Queue)
		}
		if q.List = l; len(q.readings) >= maxReadings {
			q.readings = slices.Delete(q.readings, 0, 1)
		}
		q.readings = append(q.readings, reading{s.AtNS, l.Length})
		for _, id := range l.Takers {
			q.waited(id)
		}
		next[l.Object] = q
	}
	b.of = next
}

// Growing returns a Queue that has become longer throughout the last overNS, and its length at the beginning of this
// time. If there are several, it returns the Queue that has grown most. It returns nil if there is none.
func (b *Queues) Growing(overNS int64) (best *Queue, from int64) {
	most := int64(0)
	for _, q := range b.of {
		first, ok := q.grown(overNS)
		if n := q.Length - first; ok && (n > most || n == most && best != nil && q.Object < best.Object) {
			best, from, most = q, first, n
		}
	}
	return best, from
}

// grown returns the Queue's length at the beginning of the last overNS. ok is true if the Queue has grown throughout
// this time. To decide this, grown divides the time into parts. The Queue's shortest length in each part must exceed
// its greatest length in the part before.
func (q *Queue) grown(overNS int64) (from int64, ok bool) {
	last := q.readings[len(q.readings)-1].atNS
	if q.readings[0].atNS > last-overNS {
		return 0, false
	}
	var least, most [parts]int64
	var n [parts]int
	for _, r := range q.readings {
		ago := last - r.atNS
		if ago > overNS {
			continue
		}
		i := parts - 1 - min(int(ago*parts/max(overNS, 1)), parts-1)
		if n[i]++; n[i] == 1 {
			least[i], most[i] = r.length, r.length
		}
		least[i], most[i] = min(least[i], r.length), max(most[i], r.length)
	}
	for i := range parts {
		if n[i] == 0 || i > 0 && least[i] <= most[i-1] {
			return 0, false
		}
	}
	return least[0], float64(q.Length-least[0]) >= leastPart*float64(least[0])
}
