package ruby

import "github.com/ddtop/ddtop/sampler"

// Moves says when a native thread, by its id, last lost a CPU or was seen to have one, CLOCK_MONOTONIC in ns. A thread
// that has just got a CPU can be missing from what it knows.
type Moves func(tid int32) int64

// stillNS is how long, in ns, what was read of a thread's stack is believed if the thread is not known to have moved:
// other threads can change what the names of its frames rest on.
const stillNS = 1_000_000_000

// SetMoves has Read leave out the stacks of threads that have not moved since these were read. They count as fresh.
// moves is nil if it is not known who has moved. It is for the goroutine that reads.
func (r *Reader) SetMoves(moves Moves) { r.choice.moves = moves }

// standsStill reports whether what was read of a thread's stack last is its stack still.
func (r *selection) standsStill(t *thread) bool {
	st := &t.stack
	switch {
	case r.moves == nil || t.tid == 0 || t.asked() || st.id == 0 || t.ractor.owners[1] == t:
		return false
	case st.quality&(sampler.StackPartial|sampler.StackFailed|sampler.StackTruncated|sampler.StackUncertainTop) != 0, st.ec != st.keptEC:
		return false
	case r.now()-t.lookNS > stillNS || t.lookNS <= r.moves(t.tid):
		return false
	}
	return r.dec.Holds(st.proof)
}

// Entered is a thread that has begun something between two times, CLOCK_MONOTONIC in ns: before, it waited further out
// in its stack.
type Entered struct {
	TID          int32
	FromNS, ByNS int64
}

// LookAt has the next Read, of any depth, read the stacks of some threads, and what they work for. New work there has
// begun between the times in Entered. It is for the goroutine that reads.
func (r *Reader) LookAt(list []Entered) { r.choice.entered = append(r.choice.entered[:0], list...) }

// takeEntered notes which threads the tick under way is to look at.
func (r *selection) takeEntered() {
	for _, t := range r.list.order {
		t.entered = Entered{}
	}
	for _, e := range r.entered {
		for _, t := range r.list.order {
			if t.tid == e.TID {
				t.entered = e
			}
		}
	}
	r.lookAt, r.entered = len(r.entered) > 0, r.entered[:0]
}

// asked reports whether the tick under way is to look at a thread in any case.
func (t *thread) asked() bool { return t.entered.TID != 0 }
