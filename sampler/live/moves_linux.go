package live

import "sync/atomic"

// movesSlots is the number of slots for the moves of threads. Threads that share a slot are read once too often.
const movesSlots = 1 << 12

// lostNS is how long all threads count as moved after records were lost, in ns.
const lostNS = 1_000_000_000

// moves says when threads moved last, by the records of their switches. It is for any goroutine.
type moves struct {
	// fromNS is from when on it is known. It is set before all use.
	fromNS int64
	at     [movesSlots]atomic.Int64
	// newest is the time of the last move of any thread.
	newest atomic.Int64
}

// note notes that a thread had a CPU at a time.
func (m *moves) note(tid int32, ns int64) {
	slot := &m.at[uint32(tid)%movesSlots]
	if ns > slot.Load() {
		slot.Store(ns)
	}
	if ns > m.newest.Load() {
		m.newest.Store(ns)
	}
}

// last says when a thread last had a CPU, if known.
func (m *moves) last(tid int32) int64 { return max(m.fromNS, m.at[uint32(tid)%movesSlots].Load()) }
