package live

import "sync/atomic"

// moveSlots is the number of slots in lastMoves. Threads share slots by TID. If one thread of a slot had a CPU, a tick
// reads all threads of the slot.
const moveSlots = 1 << 12

// lostNS is how long ddtop does not know which threads had a CPU, in ns. This time begins when records are lost.
const lostNS = 1_000_000_000

// lastMoves knows when each thread last had a CPU, from records of the kernel. Any goroutine may use it.
type lastMoves struct {
	// fromNS is the time from which on it is known which threads had a CPU. It is set before first use.
	fromNS int64
	at     [moveSlots]atomic.Int64
	// newest is when any thread of the process last had a CPU.
	newest atomic.Int64
}

// note notes that the thread tid had a CPU at the time ns.
func (m *lastMoves) note(tid int32, ns int64) {
	slot := &m.at[uint32(tid)%moveSlots]
	if ns > slot.Load() {
		slot.Store(ns)
	}
	if ns > m.newest.Load() {
		m.newest.Store(ns)
	}
}

// last returns when a thread last had a CPU. If this was before fromNS, or never, it returns fromNS.
func (m *lastMoves) last(tid int32) int64 { return max(m.fromNS, m.at[uint32(tid)%moveSlots].Load()) }
