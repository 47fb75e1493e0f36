package live

import "sync/atomic"

// movesSlots is the number of slots. Threads share slots by TID: if one had a CPU, a tick reads all of them.
const movesSlots = 1 << 12

// lostNS is how long after a loss of records ddtop does not know which threads had a CPU, in ns.
const lostNS = 1_000_000_000

// moves knows when each thread last had a CPU, from records of the kernel. Any goroutine may use it.
type moves struct {
	// fromNS is the time since which moves are known. It is set before first use.
	fromNS int64
	at     [movesSlots]atomic.Int64
	// newest is the time of the last move of any thread.
	newest atomic.Int64
}

// note records that a thread had a CPU at a time.
func (m *moves) note(tid int32, ns int64) {
	slot := &m.at[uint32(tid)%movesSlots]
	if ns > slot.Load() {
		slot.Store(ns)
	}
	if ns > m.newest.Load() {
		m.newest.Store(ns)
	}
}

// last returns when a thread last had a CPU. It returns fromNS if the thread had no CPU since fromNS.
func (m *moves) last(tid int32) int64 { return max(m.fromNS, m.at[uint32(tid)%movesSlots].Load()) }
