package pace

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler"
)

// samplerNice is the nice value that the sampling thread requests. On a full machine, a sampler with normal priority
// gets a CPU mostly when another thread blocks. A Ruby thread blocks when it hands over the GVL, so ddtop would see too
// many hand-overs (docs/internals/threads.md#rubys-thread-events).
const samplerNice = -10

// epoch relates Go's own clock to CLOCK_MONOTONIC. Both are the same clock with different origins. Go reads its clock
// without a system call (runtime.nanotime in the vDSO), but x/sys makes a system call to read CLOCK_MONOTONIC. This
// matters because a tick reads the clock about ten times.
var epoch = newEpoch()

type clockEpoch struct {
	at time.Time
	ns int64 // CLOCK_MONOTONIC at the time at
}

// epochTries is how often newEpoch reads the two clocks, one directly after the other. It uses the pair of readings
// that are closest in time.
const epochTries = 16

func newEpoch() clockEpoch {
	var best clockEpoch
	closest := int64(math.MaxInt64)
	for range epochTries {
		from := readMonotonic()
		at := time.Now()
		to := readMonotonic()
		if d := to - from; d < closest {
			best, closest = clockEpoch{at: at, ns: from + d/2}, d
		}
	}
	return best
}

func readMonotonic() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0 // can't fail with a valid clock
	}
	return ts.Nano()
}

// Monotonic returns CLOCK_MONOTONIC in ns, exact to a fraction of a microsecond.
func Monotonic() int64 { return epoch.ns + int64(time.Since(epoch.at)) }

// RaisePriority gives the calling OS thread a short time slice, exact timers and, if ddtop may do that, a higher
// priority. Nothing undoes this, because such a thread ends with its work (attach.OnOwnThread). No other thread
// inherits these properties: Go starts no thread from one that is locked to its goroutine.
func RaisePriority() {
	tid := unix.Gettid()
	// By default, the kernel may delay timers by 50 µs. At 1 kHz, ticks would then be unevenly spaced.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // a failure only costs exactness
	_ = unix.Setpriority(unix.PRIO_PROCESS, tid, samplerNice)
	_ = setSlice(tid, SliceNS) // KernelPriority shows what the kernel granted
}

// PriorityNote returns why the sampling thread has only normal priority. It is empty if the priority can be raised.
func PriorityNote() string {
	var limit unix.Rlimit
	if unix.Geteuid() == 0 {
		return ""
	}
	// RLIMIT_NICE allows nice values down to 20-limit (getrlimit(2)).
	if unix.Getrlimit(unix.RLIMIT_NICE, &limit) == nil && int64(limit.Cur) >= 20-samplerNice {
		return ""
	}
	return "normal priority: waits may be seen late on a full machine (run as root or with CAP_SYS_NICE)"
}

// threadCPU returns the CPU time of a thread of ddtop, in ns.
func threadCPU(tid int) (int64, error) {
	// This is how the kernel numbers the CPU-time clock of a thread (linux/posix-timers.h: MAKE_THREAD_CPUCLOCK with
	// CPUCLOCK_SCHED).
	const perThread, sched = 4, 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^tid<<3|perThread|sched), &ts); err != nil {
		return 0, err
	}
	return ts.Nano(), nil
}

// KernelPriority returns the priority that the kernel gives the calling thread.
func KernelPriority() sampler.Priority {
	a, err := unix.SchedGetAttr(0, 0)
	switch {
	case err != nil:
		return sampler.PriorityUnknown
	case a.Policy == unix.SCHED_FIFO || a.Policy == unix.SCHED_RR:
		return sampler.PriorityRealTime
	case a.Nice < 0:
		return sampler.PriorityRaised
	case a.Runtime == SliceNS: // from Linux 6.12 on, the kernel reports the slice here
		return sampler.PriorityShortSlice
	}
	return sampler.PriorityNormal
}
