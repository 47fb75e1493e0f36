package pace

import (
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/kernel"
)

// A Meter measures the CPU time of ticks with the kernel's counters. It counts the CPU time of two threads: the
// sampling thread, to which it belongs, and a helper thread that works for it. It cannot use the CPU time of all of
// ddtop, which would include the ticks of other processes.
type Meter struct {
	// helper returns the tid of the helper thread, or 0 if there is none now. It is nil if there never is one.
	helper             func() int
	tid                int
	lastOwn, lastOther int64
}

// NewMeter returns the meter of the calling thread and of the thread whose tid helper returns. helper may be nil.
func NewMeter(helper func() int) *Meter {
	m := &Meter{helper: helper}
	m.Since()
	return m
}

// Since returns the CPU time since the last call, in ns.
func (m *Meter) Since() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0 // reading this clock cannot fail
	}
	d := ts.Nano() - m.lastOwn
	m.lastOwn = ts.Nano()
	if m.helper == nil {
		return d
	}
	if tid := m.helper(); tid != m.tid {
		m.tid, m.lastOther = tid, 0 // this is a new thread, so all its CPU time counts
	}
	if m.tid == 0 {
		return d
	}
	other, err := threadCPU(m.tid)
	if err != nil {
		return d // the helper has ended
	}
	d += max(other-m.lastOther, 0)
	m.lastOther = other
	return d
}

// OwnCPU returns the CPU time of ddtop in ns. It is zero if it is not known.
func OwnCPU() int64 {
	ns, err := kernel.SelfCPU()
	if err != nil {
		return 0
	}
	return ns
}
