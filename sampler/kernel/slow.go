package kernel

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// rollupEveryNS is the shortest interval between two readings of proportional memory, in ns. For a reading, the
	// kernel walks all pages of the process and holds its mmap lock for reading. This delays a thread that maps or
	// unmaps memory: 0.24 ms at 14 MB, 1.4 ms at 250 MB. For a large process the interval is longer.
	rollupEveryNS = 10e9
	// rollupRest sets the pause after a reading. The pause is rollupRest times the length of the reading, times the
	// number of followed processes. So the readings of all processes together take at most a thousandth of the time.
	rollupRest = 1000
	// rollupSharers is a number of followed processes. If ddtop follows more, the interval rollupEveryNS grows in
	// proportion. With fifty workers, each is read every 31 s.
	rollupSharers = 16
	// switchesRest limits the counting of context switches to half a percent of the time. The pause after a count is
	// switchesRest times the length of the count. switchTaskNS is the assumed time to count one thread, in ns. A
	// measured time would include waits for a CPU, which are long on a busy machine.
	switchesRest, switchTaskNS = 200, 7000
	// stillSwitchesNS is the longest interval between two counts of context switches, in ns. It applies while the
	// caller reports that no thread of the process has had a CPU.
	stillSwitchesNS = 5e9
	// maxSwitchTasks is the largest number of threads whose context switches ddtop counts. The oldest threads come
	// first.
	maxSwitchTasks = 2000
)

// SlowCounts are the counters of a process that Slow reads.
type SlowCounts struct {
	// PSSBytes is the process's memory with a proportional part of shared memory, at the last reading, in bytes (Pss of
	// smaps_rollup, Linux 4.14 and later). It is zero if unknown.
	PSSBytes int64
	// Switches is how often the kernel gave the process's threads a CPU since the first Read (the third field of
	// task/TID/schedstat, Documentation/scheduler/sched-stats.rst).
	Switches int64
	// Accept has the queues of connections that the process has not accepted yet.
	Accept sampler.Accept
	// CPUUse has the other processes that use the CPUs. It is nil if the threads of this process hardly lack a CPU.
	CPUUse *sampler.CPUUse
}

// Slow reads the counters of a process that take a millisecond or more. For one of them the kernel walks over all pages
// of the process. For another, ddtop reads a file of each thread. Only one goroutine may use a Slow, and it must not be
// the goroutine that samples.
type Slow struct {
	pid, dir int // dir is /proc/PID
	proc     *living
	rollup   rollup
	switches switches
	accepts  accepts
	buf      [4096]byte
}

// OpenSlow prepares to read the slow counters of a process. Its errors are *Error: ErrGone if there is no such process,
// ErrUnsupported on systems other than Linux.
func OpenSlow(pid int) (*Slow, error) {
	path := fmt.Sprintf("/proc/%d", pid)
	dir, err := openDir(path)
	if err != nil {
		return nil, &Error{"open", path, err}
	}
	s := &Slow{pid: pid, dir: dir, proc: newLiving(pid, dir)}
	if err := s.rollup.open(s.proc); err != nil {
		s.Close()
		return nil, &Error{"open", path + "/smaps_rollup", err}
	}
	return s, nil
}

// Close closes the files that are kept open.
func (s *Slow) Close() error {
	s.rollup.close()
	s.accepts.close()
	s.proc.close()
	closeFD(s.dir)
	s.dir = noFD
	return nil
}

// Read returns all counters. It first updates those whose interval is over. A counter that cannot be read keeps its
// value. Call it once per second. nowNS is CLOCK_MONOTONIC. sharers is the number of followed processes. The function
// still(t) reports whether no thread has had a CPU since the time t. It may be nil.
func (s *Slow) Read(nowNS int64, sharers int, still func(sinceNS int64) bool) SlowCounts {
	return SlowCounts{PSSBytes: s.rollup.read(s.pid, nowNS, int64(sharers), s.proc), Switches: s.switches.read(s.dir, nowNS, still, s.buf[:]),
		Accept: s.accepts.read(s.proc, nowNS), CPUUse: s.use(nowNS)}
}

// use returns which other processes use the CPUs. It returns nil if the threads of this process hardly lack a CPU.
func (s *Slow) use(nowNS int64) *sampler.CPUUse {
	if s.switches.lacked < nearDelay {
		return nil
	}
	return cpuUse.read(nowNS, s.pid)
}

// rollup reads /proc/PID/smaps_rollup.
type rollup struct {
	fd     int
	nextNS int64
	pss    int64
}

// open opens the file smaps_rollup. If the kernel lacks the file or denies access, open returns no error, and the
// counter stays unknown.
func (r *rollup) open(proc *living) error {
	fd, err := proc.open("smaps_rollup")
	if err != nil {
		fd = noFD
	}
	r.fd = fd
	if Exhausted(err) {
		return err
	}
	return nil
}

func (r *rollup) close() {
	closeFD(r.fd)
	r.fd = noFD
}

func (r *rollup) read(pid int, nowNS, sharers int64, proc *living) int64 {
	if r.fd == noFD || nowNS < r.nextNS {
		return r.pss
	}
	began, fd := time.Now(), r.fd
	pss, err := attach.Ask(pid, "reading its smaps_rollup", func() (int64, error) {
		var buf [4096]byte
		n, err := pread(fd, buf[:])
		if err != nil {
			return 0, err
		}
		pss, ok := memoryField(buf[:n], "Pss")
		if !ok {
			return 0, errFormat
		}
		return pss, nil
	})
	sharers = max(sharers, 1)
	r.nextNS = nowNS + max(rollupEveryNS*max(sharers, rollupSharers)/rollupSharers, rollupRest*sharers*time.Since(began).Nanoseconds())
	switch {
	case errors.Is(err, attach.ErrNoAnswer):
		r.fd = noFD // a goroutine still reads the file, so no later read may use it
	case err == nil:
		r.pss = pss
	case errors.Is(&Error{Err: err}, ErrGone) && proc.moved():
		if fd, err := proc.open("smaps_rollup"); err == nil {
			closeFD(r.fd)
			r.fd, r.nextNS = fd, nowNS // the next call reads the file
		}
	}
	return r.pss
}

// switches adds up how often the threads of a process got a CPU. The kernel counts this only for each thread, and drops
// the count when the thread ends.
type switches struct {
	total        int64
	atNS, nextNS int64
	// last has each thread's counters at the last reading. seen is a spare map for the next reading.
	last, seen map[int32]CPU
	// lacked is how many threads were ready without a CPU, as a mean over the time between the last two readings.
	lacked float64
}

// read returns how often threads got a CPU since the first call of read.
func (s *switches) read(dir int, nowNS int64, still func(sinceNS int64) bool, buf []byte) int64 {
	if nowNS < s.nextNS || still != nil && s.lacked == 0 && nowNS-s.atNS < stillSwitchesNS && still(s.atNS) {
		return s.total
	}
	tids, err := listNumbers(dir, "task", "task", nil)
	if err != nil {
		return s.total // the process has ended
	}
	tids = tids[:min(len(tids), maxSwitchTasks+1)]
	s.nextNS = nowNS + switchesRest*switchTaskNS*int64(len(tids))
	first, lackedNS := s.last == nil, int64(0)
	if s.seen == nil {
		s.seen = make(map[int32]CPU)
	}
	clear(s.seen)
	for _, tid := range tids[:min(len(tids), maxSwitchTasks)] {
		name := "task/" + strconv.Itoa(int(tid)) + "/schedstat"
		before, known := s.last[tid]
		b, err := readWhole(dir, name, name, buf)
		cpu, ok := parseSchedstat(b)
		if err != nil || !ok {
			// After ErrGone, drop the thread's counters, because the thread has ended or the kernel does not count.
			// After any other error, keep the counters.
			if known && !errors.Is(err, ErrGone) {
				s.seen[tid] = before
			}
			continue
		}
		n := cpu.Turns
		s.seen[tid] = cpu
		switch {
		case first, !known && len(tids) > maxSwitchTasks: // earlier switches are not part of the sum
		case n < before.Turns: // another thread has this tid now
			s.total += n
		default:
			s.total += n - before.Turns
			lackedNS += cpu.DelayNS - before.DelayNS
		}
	}
	s.lacked = 0
	if !first && nowNS > s.atNS {
		s.lacked = float64(lackedNS) / float64(nowNS-s.atNS)
	}
	s.atNS = nowNS
	s.last, s.seen = s.seen, s.last
	return s.total
}
