package account

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// maxCycles limits how many deadlocks Deadlocks returns.
const maxCycles = 64

// Deadlocks returns the cycles of threads that wait for each other without a deadline: for a Mutex, for a Monitor or in
// Thread#join. A thread that seems to wait for itself is no deadlock. Ruby refuses such a wait with a ThreadError, so
// the data was read while Ruby was changing it. Each cycle begins with its smallest ID, and the cycles are ordered by
// this ID.
func Deadlocks(states []gvl.ThreadState) [][]sampler.ThreadID {
	next := make(map[sampler.ThreadID]sampler.ThreadID)
	for i := range states {
		if to := waitsFor(&states[i]); to != 0 && to != states[i].Thread {
			next[states[i].Thread] = to
		}
	}
	var cycles [][]sampler.ThreadID
	seen := make(map[sampler.ThreadID]int) // the number of the walk that visited the thread
	for i := range states {
		at, walk := states[i].Thread, i+1
		for at != 0 && seen[at] == 0 {
			seen[at] = walk
			at = next[at]
		}
		if at == 0 || seen[at] != walk || len(cycles) >= maxCycles {
			continue
		}
		cycle := []sampler.ThreadID{at}
		for to := next[at]; to != at; to = next[to] {
			cycle = append(cycle, to)
		}
		low := slices.Index(cycle, slices.Min(cycle))
		cycles = append(cycles, append(slices.Clone(cycle[low:]), cycle[:low]...))
	}
	sorting.By(cycles, func(a, b []sampler.ThreadID) int { return int(a[0]) - int(b[0]) })
	return cycles
}

// waitsFor returns the thread that must act before the thread of ts can continue. It is zero if there is no such
// thread, or if the wait has a time limit.
func waitsFor(ts *gvl.ThreadState) sampler.ThreadID {
	switch {
	case ts.Detail.DeadlineNS != 0:
		return 0
	case ts.State == gvl.Lock:
		return ts.Detail.Holder
	case ts.State == gvl.Parked:
		return ts.Detail.Joined
	}
	return 0
}

// StuckBehind returns the threads that wait, directly or through other threads, for a thread of the cycle, and are not
// in the cycle themselves.
func StuckBehind(states []gvl.ThreadState, cycle []sampler.ThreadID) (behind []sampler.ThreadID) {
	next := make(map[sampler.ThreadID]sampler.ThreadID)
	for i := range states {
		next[states[i].Thread] = waitsFor(&states[i])
	}
	for i := range states {
		id := states[i].Thread
		if slices.Contains(cycle, id) {
			continue
		}
		for range states {
			if id = next[id]; id == 0 || slices.Contains(cycle, id) {
				break
			}
		}
		if slices.Contains(cycle, id) {
			behind = append(behind, states[i].Thread)
		}
	}
	return behind
}
