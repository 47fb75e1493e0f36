package live

import "github.com/ddtop/ddtop/sampler/kernel"

const (
	// switchesNS is how often the context switches of all threads are counted.
	switchesNS = 1_000_000_000
	// maxSwitchTasks bounds the threads that are counted, the oldest ones: some 2 µs each.
	maxSwitchTasks = 2000
)

// switches adds up how often the threads of a process were given a CPU. The kernel counts by thread, and forgets those that
// have ended.
type switches struct {
	total  int64
	nextNS int64
	// last is what was read of each thread; seen is the other one's memory.
	last, seen map[int32]int64
}

// read returns the sum since the first call. What a thread did before that is not part of it; of one that began later all is.
func (s *switches) read(tasks *kernel.Tasks, nowNS int64) int64 {
	if nowNS < s.nextNS {
		return s.total
	}
	s.nextNS = nowNS + switchesNS
	tids, err := tasks.List()
	if err != nil {
		return s.total // the process has ended
	}
	first := s.last == nil
	if s.seen == nil {
		s.seen = make(map[int32]int64)
	}
	clear(s.seen)
	for _, tid := range tids[:min(len(tids), maxSwitchTasks)] {
		n, err := tasks.Switches(tid)
		if err != nil {
			continue // it has ended, or the kernel does not count
		}
		s.seen[tid] = n
		before, known := s.last[tid]
		switch {
		case first, !known && len(tids) > maxSwitchTasks: // what it did before is not part of it, or may not be
		case n < before: // another thread has the number now
			s.total += n
		default:
			s.total += n - before
		}
	}
	s.last, s.seen = s.seen, s.last
	return s.total
}
