package recording

import "github.com/ddtop/ddtop/sampler"

// state is the data from which the next sample is predicted. It has the previous sample, because each sample is written
// as the difference to the previous one. Writer and reader have the same state at each sample.
type state struct {
	sample sampler.Sample
	// callsStep is the number of system calls that ddtop made for the last sample. For the next sample it probably
	// makes the same number.
	callsStep uint64
	// pairs is true if the last samples had counts of newly allocated objects (GC.Pair). The next sample probably has
	// such a count, too.
	pairs bool
	// at is when ddtop last asked the kernel in this sample, in units of 1 µs. ddtop asks about one thread after the
	// other, so each thread has a different time. firstAfter is the time from the read of memory to the first question
	// to the kernel, in the same unit. It is about the same in each sample.
	at, firstAfter int64
	asked          bool

	// memories has the earlier values of each thread (memory), at the thread's index in sample.Threads.
	memories     []memory
	classes      classState
	fibers       fibersState
	changed      changesState
	spareThreads []sampler.Thread
	spareMemory  []memory
	spareRactors []sampler.Ractor
	threadIndex  map[sampler.ThreadID]int
	ractorIndex  map[sampler.RactorID]int
}

func newState() state {
	return state{threadIndex: make(map[sampler.ThreadID]int), ractorIndex: make(map[sampler.RactorID]int)}
}

// reset sets the state to an empty sample, as at the start of a block. It keeps the allocated memory.
func (st *state) reset() {
	threads, ractors := st.sample.Threads[:0], st.sample.Ractors[:0]
	st.sample = sampler.Sample{Threads: threads, Ractors: ractors}
	st.memories = st.memories[:0]
	st.classes = classState{classes: st.classes.classes[:0], spare: st.classes.spare, byName: st.classes.byName}
	st.fibers = fibersState{list: st.fibers.list[:0], spare: st.fibers.spare}
	st.changed.reset()
	st.callsStep, st.at, st.firstAfter, st.pairs = 0, 0, 0, false
}

// Bits of a sample's flags. The first seven fit in one byte.
const (
	sampleStackTick = 1 << iota
	sampleSlow
	sampleThreadList
	sampleRactors
	sampleGC
	sampleReads
	sampleProc
	sampleSelf
	sampleRactorList
	samplePause // the target was stopped for the sample
	sampleGCDetail
	sampleFineTime // TimeNS is written in ns, not in µs (unit)
	sampleClasses
	sampleHalved // ddtop uses only half of its budget, because no CPU is free
	sampleLowered
	sampleFibers  // since version 4
	sampleChanges // since version 6
	sampleExtended
	sampleQueues      // since version 8
	sampleNativeLocks // since version 9
	sampleCPUUse      // since version 12
	sampleRuns        // since version 12
)

// Bits of a thread's mask. A bit is set if the value has changed. The first seven fit in one byte.
const (
	threadStatus = 1 << iota
	threadBits
	threadStack
	threadCPU
	threadStateAt
	threadCall
	threadBlocked
	threadQuality
	threadDeadline
	threadNoDeadline
	threadNoStateAt
	threadTID
	threadRactor
	threadResumers
	threadOmitted
	threadRechecked
	threadTurns // this bit and the next one exist since version 2
	threadListens
	threadWork // this bit and the following ones exist since version 3
	threadStatement
	threadException
	threadSpans
	threadTrace  // since version 5
	threadNative // since version 11
)

// These numbers say how a thread's call or Blocked has changed: back to the value before the present one, or to another
// value. Most threads alternate between two values, for example between reading from the database and no call.
const (
	changeBack  = 0 // back to the value before the present one
	changeOther = 1 // to another value, which follows
)

// call is the part of sampler.Kernel that shows in which system call a thread waits, and for what.
type call struct {
	syscall string
	fd, fds int32
	peer    sampler.PeerID
	child   int32
}

func callOf(k *sampler.Kernel) call { return call{k.Syscall, k.FD, k.FDs, k.Peer, k.Child} }

func (c call) set(k *sampler.Kernel) {
	k.Syscall, k.FD, k.FDs, k.Peer, k.Child = c.syscall, c.fd, c.fds, c.peer, c.child
}

// blockedOf returns a thread's Blocked without the deadline. The deadline is left out because it is different each
// time.
func blockedOf(t *sampler.Thread) sampler.Blocked {
	b := t.Blocked
	b.DeadlineNS = 0
	return b
}

// memory has the values that a thread's call and Blocked had before their last change.
type memory struct {
	call    call
	blocked sampler.Blocked
}

// Bits of a ractor's mask.
const (
	ractorOwnerStart = 1 << iota
	ractorOwnerEnd
	ractorQueue
	ractorWaiting
	ractorTorn // this bit itself is the value, so nothing follows
)

// Bits of the mask of GC.
const (
	gcValid  = 1 << iota // this bit itself is the value, so nothing follows
	gcDuring             // this bit itself is the value, so nothing follows
	gcMinor              // this bit itself is the value, so nothing follows
	gcAllocated
	gcMode
	gcPairObjects // objects were allocated
	gcPairThread  // the thread differs from the predicted one
	gcCounts
	gcReason
	gcTime
)

// predictPair returns the most likely GC.Pair of the next sample. A GC.Pair says how many objects a thread allocated
// just before ddtop read its stack. The thread is probably the holder of the first ractor's GVL. The number is probably
// zero, because it covers only a few µs.
func (st *state) predictPair() sampler.AllocPair {
	if !st.pairs || len(st.sample.Ractors) == 0 {
		return sampler.AllocPair{}
	}
	return sampler.AllocPair{Thread: st.sample.Ractors[0].OwnerStart}
}

// notePair sets st.pairs to whether a sample has a count of newly allocated objects (GC.Pair). It ignores a sample in
// which no thread holds the GVL, because such a sample cannot have this count.
func (st *state) notePair(p sampler.AllocPair) {
	if p.Thread != 0 {
		st.pairs = true
	} else if len(st.sample.Ractors) > 0 && st.sample.Ractors[0].OwnerStart != 0 {
		st.pairs = false
	}
}

// Bits of the mask of GCDetail. A bit is set if the value has changed. Other values of GCDetail have separate masks.
const (
	detailFlags = 1 << iota
	detailNextMajor
	detailHeaps
)

// maxPredictRactors limits the number of ractors for which predictQuality looks for holders of a GVL. With more
// ractors, this would take too long for each thread.
const maxPredictRactors = 4

// predictQuality returns the most likely StackQuality of a thread. A stack tick reads all stacks. A lock tick reads
// only the stacks of the threads that hold a GVL. When predictQuality is called, the state's sample must already have
// the Depth and Ractors of the new sample.
func (st *state) predictQuality(t *sampler.Thread) sampler.StackQuality {
	fresh := st.sample.Depth == sampler.StackTick
	if rs := st.sample.Ractors; len(rs) <= maxPredictRactors {
		for i := range rs {
			fresh = fresh || rs[i].OwnerStart == t.ID || rs[i].OwnerEnd == t.ID
		}
	}
	if fresh {
		return t.Quality | sampler.StackFresh
	}
	return t.Quality &^ sampler.StackFresh
}

// predictReads returns the most likely Reads of the next sample, whose depth is given.
func (st *state) predictReads(depth sampler.Depth) sampler.Reads {
	r := st.sample.Reads
	r.Ticks++
	if depth == sampler.StackTick {
		r.StackTicks++
		if st.sample.Reads.Pauses > 0 {
			r.Pauses++ // if the target is paused, it is paused at each stack tick
		}
	}
	r.Calls += st.callsStep
	return r
}

// units converts a time in ns to the unit in which it is written. It rounds up, so that only 0 becomes 0. All times are
// rounded in the same direction, so they stay in order. A difference is computed from rounded times, so that errors do
// not add up.
func units(ns int64) int64 {
	n := ns / unit
	if ns%unit > 0 {
		n++
	}
	return n
}

// readEnd returns when the read of the memory ended, in units of 1 µs. TimeNS is the middle of this read.
func (st *state) readEnd() int64 {
	return units(st.sample.TimeNS + units(st.sample.ReadNS)*unit/2)
}

// startTimes predicts when ddtop first asked the kernel about a thread in this sample. It takes the time from the end
// of the read of memory to the first question, as in the last sample with a question.
func (st *state) startTimes() {
	st.at, st.asked = st.readEnd()+st.firstAfter, false
}

// atTime notes when ddtop asked the kernel about a thread. at is in units of 1 µs.
func (st *state) atTime(at int64) {
	if !st.asked {
		st.firstAfter, st.asked = at-st.readEnd(), true
	}
	st.at = at
}

// editThreads replaces the middle of the list of threads by the threads with the given IDs. prefix is the number of
// threads at the beginning that stay, and suffix the number at the end. Threads that stay in the list keep their
// values.
func (st *state) editThreads(prefix, suffix int, ids []sampler.ThreadID) {
	old := st.sample.Threads
	clear(st.threadIndex)
	for i := prefix; i < len(old)-suffix; i++ {
		st.threadIndex[old[i].ID] = i
	}
	list, memories := append(st.spareThreads[:0], old[:prefix]...), append(st.spareMemory[:0], st.memories[:prefix]...)
	for _, id := range ids {
		t, m := sampler.Thread{ID: id}, memory{}
		if i, ok := st.threadIndex[id]; ok {
			t, m = old[i], st.memories[i]
			delete(st.threadIndex, id) // a second element with this ID must not share the list of Resumers
		}
		list, memories = append(list, t), append(memories, m)
	}
	rest := len(old) - suffix
	list, memories = append(list, old[rest:]...), append(memories, st.memories[rest:]...)
	st.spareThreads, st.spareMemory = old[:0], st.memories[:0]
	st.sample.Threads, st.memories = list, memories
}

// editRactors replaces the list of ractors by the ractors with the given IDs. Ractors that stay in the list keep their
// values.
func (st *state) editRactors(ids []sampler.RactorID) {
	old := st.sample.Ractors
	clear(st.ractorIndex)
	for i := range old {
		st.ractorIndex[old[i].ID] = i
	}
	list := st.spareRactors[:0]
	for _, id := range ids {
		r := sampler.Ractor{ID: id}
		if i, ok := st.ractorIndex[id]; ok {
			r = old[i]
			delete(st.ractorIndex, id)
		}
		list = append(list, r)
	}
	st.sample.Ractors, st.spareRactors = list, old[:0]
}

// setThread copies s to t. It reuses the memory of t.Resumers.
func setThread(t *sampler.Thread, s *sampler.Thread) {
	resumers := append(t.Resumers[:0], s.Resumers...)
	*t = *s
	t.Resumers = resumers
}
