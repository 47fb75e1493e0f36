package ruby

import "github.com/ddtop/ddtop/sampler"

// Moves returns when a native thread last lost a CPU or was seen on one, CLOCK_MONOTONIC in ns. If a thread has just
// got a CPU, Moves may still return an earlier time.
type Moves func(tid int32) int64

// stillNS limits the age of a stack, in ns, if the thread is not known to have moved. An older stack is read again,
// because other threads can change the memory with the names of its frames.
const stillNS = 1_000_000_000

// SetMoves makes Read skip the stacks of threads that have not moved (had a CPU) since their stacks were last read.
// These stacks count as fresh. moves is nil if nothing is known of the threads' moves. Only the goroutine that calls
// Read may call it.
func (r *Reader) SetMoves(moves Moves) { r.choice.moves = moves }

// standsStill reports whether the stack that was last read of a thread is still right, because the thread has had no
// CPU since.
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

// Entered is a thread that began new work between FromNS and ByNS, CLOCK_MONOTONIC in ns. Before that, it waited in a
// frame that is now an outer frame of its stack.
type Entered struct {
	TID          int32
	FromNS, ByNS int64
}

// LookAt makes the next Read, of any depth, read the stacks and the work of the threads in list. New work of such a
// thread counts as begun between its FromNS and ByNS. Only the goroutine that calls Read may call it.
func (r *Reader) LookAt(list []Entered) { r.choice.entered = append(r.choice.entered[:0], list...) }

// takeEntered marks the threads that the current tick must read.
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

// asked reports whether the current tick must read a thread because of LookAt.
func (t *thread) asked() bool { return t.entered.TID != 0 }
