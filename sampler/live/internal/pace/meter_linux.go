package pace

import (
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/kernel"
)

// A Meter says what ticks take of the CPU, as the kernel counts it: that of the sampling thread, to which it belongs,
// and of one that works for it. The CPU time of all of ddtop would not do: the ticks of other Sources are in it.
type Meter struct {
	// helper returns the tid of the other thread, 0 when there is none; nil: there never is.
	helper             func() int
	tid                int
	lastOwn, lastOther int64
}

// NewMeter returns the meter of the calling thread, and of the one whose tid helper, which may be nil, returns.
func NewMeter(helper func() int) *Meter {
	m := &Meter{helper: helper}
	m.Since()
	return m
}

// Since is the CPU time since the last call, in ns.
func (m *Meter) Since() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0 // can't fail with this clock
	}
	d := ts.Nano() - m.lastOwn
	m.lastOwn = ts.Nano()
	if m.helper == nil {
		return d
	}
	if tid := m.helper(); tid != m.tid {
		m.tid, m.lastOther = tid, 0 // a new thread: all that it took was for this
	}
	if m.tid == 0 {
		return d
	}
	other, err := threadCPU(m.tid)
	if err != nil {
		return d // it has ended
	}
	d += max(other-m.lastOther, 0)
	m.lastOther = other
	return d
}

// OwnCPU is the CPU time of ddtop in ns; 0 where it can't be told.
func OwnCPU() int64 {
	ns, err := kernel.SelfCPU()
	if err != nil {
		return 0
	}
	return ns
}
