package live

import (
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/kernel"
)

// meter says what ticks take of the CPU, as the kernel counts it. It belongs to the sampling thread.
type meter struct {
	clock int32
	last  int64
}

// newMeter returns the meter of the calling thread; whole: of all of ddtop, since another thread reads, too (pauses).
func newMeter(whole bool) *meter {
	m := &meter{clock: unix.CLOCK_THREAD_CPUTIME_ID}
	if whole {
		m.clock = unix.CLOCK_PROCESS_CPUTIME_ID
	}
	m.since()
	return m
}

// since is the CPU time since the last call, in ns.
func (m *meter) since() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(m.clock, &ts) != nil {
		return 0 // can't fail with these clocks
	}
	now := ts.Nano()
	d := now - m.last
	m.last = now
	return d
}

// ownCPU is the CPU time of ddtop in ns; 0 where it can't be told.
func ownCPU() int64 {
	ns, err := kernel.SelfCPU()
	if err != nil {
		return 0
	}
	return ns
}
