package kernel

import (
	"bytes"
	"fmt"
)

const (
	// maxBirths is the largest number of new tasks whose parents Since reads. Each takes 10 µs. If there are more new
	// tasks, the caller asks each process for its children.
	maxBirths = 128
	// birthsNS is the interval at which the caller asks each process for its children in any case, in ns. Otherwise it
	// would miss an old process that got a new parent because its own parent ended (PR_SET_CHILD_SUBREAPER).
	birthsNS = 5e9
)

// Births finds new processes by their PIDs, which the kernel gives out in ascending order. If the machine has started
// no task since the last check, a check reads only one small file, however many threads are followed. Only one
// goroutine may use Births.
type Births struct {
	// last is the newest PID at the last call to Since. The field before is the newest PID at the call before that one.
	before, last int64
	// allNS is the time (CLOCK_MONOTONIC) of the last call to Since that returned all = true.
	allNS int64
}

// Since returns the living processes, with their parents, that started after the call before the previous call. So two
// calls return each process, because at the first of them the kernel may not show the task yet. The result all is true
// if processes may be missing. Then the caller must ask each process for its children. This happens at the first two
// calls, after the PIDs began anew, after more than maxBirths new tasks, and every birthsNS. nowNS is CLOCK_MONOTONIC.
func (b *Births) Since(nowNS int64) (born []Born, all bool) {
	from := b.before
	last, ok := lastTask()
	b.before, b.last = b.last, last
	if !ok || from == 0 || nowNS-b.allNS >= birthsNS || last < from || last-from > maxBirths {
		b.allNS = nowNS
		return nil, true
	}
	for pid := from + 1; pid <= last; pid++ {
		if parent, ok := parentOf(int(pid)); ok {
			born = append(born, Born{PID: int(pid), Parent: parent})
		}
	}
	return born, false
}

// Born is a new process.
type Born struct{ PID, Parent int }

// lastTask returns the PID that the kernel gave out last: the last field of /proc/loadavg (proc_loadavg(5)).
func lastTask() (int64, bool) {
	var buf [128]byte
	b, err := readWhole(noFD, "/proc/loadavg", "/proc/loadavg", buf[:])
	if err != nil {
		return 0, false
	}
	n, rest, ok := takeUint(b[bytes.LastIndexByte(b, ' ')+1:])
	return int64(n), ok && n < 1<<31 && len(bytes.TrimSpace(rest)) == 0
}

// parentOf returns the parent of the process with a PID. ok is false if the number is a thread's, or no task has it.
func parentOf(pid int) (parent int, ok bool) {
	var buf [4096]byte
	name := fmt.Sprintf("/proc/%d/status", pid)
	b, err := readWhole(noFD, name, name, buf[:])
	if err != nil {
		return 0, false
	}
	group, _ := statusNumber(b, "Tgid")
	parent64, known := statusNumber(b, "PPid")
	return int(parent64), known && group == int64(pid)
}
