package ruby

import "github.com/ddtop/ddtop/sampler"

// Moves returns the last time at which a native thread lost a CPU or was seen on a CPU, by CLOCK_MONOTONIC in ns. If a
// thread has just got a CPU, Moves may still return an earlier time.
type Moves func(tid int32) int64

// stillNS limits how long ddtop keeps using the stack of a thread that has not run, in ns. After that, ddtop reads the
// stack again, because other threads can change the memory with the names of its frames.
const stillNS = 1_000_000_000

// SetMoves makes Read skip the stack of a thread that has had no CPU since the stack was last read. The Sample shows
// such a stack as fresh. moves says when a thread had a CPU. It is nil if this is not known. Only the goroutine that
// calls Read may call SetMoves.
func (r *Reader) SetMoves(moves Moves) { r.choice.moves = moves }

// standsStill reports whether the last stack of a thread is still right, because the thread has had no CPU since it was
// read.
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

// Entered is a thread that began new work between FromNS and ByNS, by CLOCK_MONOTONIC in ns. Before that, the thread
// waited for work in a frame that is still on its stack, outward of the new work's frames.
type Entered struct {
	TID          int32
	FromNS, ByNS int64
}

// LookAt requests the threads in list from the next Read, of any kind. This Read then reads their stacks, and the
// requests or jobs that they work for. New work of such a thread is reported as begun between its FromNS and ByNS. Only
// the goroutine that calls Read may call it.
func (r *Reader) LookAt(list []Entered) { r.choice.entered = append(r.choice.entered[:0], list...) }

// takeEntered marks the threads that this tick must read because of LookAt.
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

// asked reports whether the current tick must read the thread because LookAt was called for it.
func (t *thread) asked() bool { return t.entered.TID != 0 }
