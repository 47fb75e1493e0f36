package live

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// timerSleepNS is the shortest sleep that is left to a timer, in ns: that of the slow clock.
const timerSleepNS = 20_000_000

// sleeper sleeps for one goroutine that has a thread of its own.
//
// Go's scheduler is not told of a short sleep: the thread keeps its processor, and Run adds one for that. A longer one must not keep
// it: a timer that is a descriptor ends it. docs/reading.md#what-it-costs has the reasons, with figures.
type sleeper struct {
	timer *os.File // nil: there is none
	fd    int
}

// newSleeper returns a sleeper; without a timer where the kernel gives none (no descriptors left), which works as well and costs more.
func newSleeper() sleeper {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return sleeper{}
	}
	return sleeper{os.NewFile(uintptr(fd), "timer"), fd}
}

func (z *sleeper) close() {
	if z.timer != nil {
		_ = z.timer.Close() // nothing is lost
	}
}

// until sleeps until CLOCK_MONOTONIC reaches ns.
func (z *sleeper) until(ns int64) {
	d := ns - monotonic()
	switch {
	case d <= timerSleepNS:
		sleepShort(ns)
	case z.timer == nil || !z.wait(ns):
		time.Sleep(time.Duration(d))
	}
}

// wait waits for the timer; false: it can't.
func (z *sleeper) wait(ns int64) bool {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(ns)}
	if unix.TimerfdSettime(z.fd, unix.TFD_TIMER_ABSTIME, &at, nil) != nil {
		return false
	}
	var expired [8]byte // how often, by which the kernel wants to be asked
	_, err := z.timer.Read(expired[:])
	return err == nil
}

// sleepShort sleeps until CLOCK_MONOTONIC reaches ns, with Go's processor. Garbage collection does not wait for it: its signal ends
// the sleep with EINTR.
func sleepShort(ns int64) {
	ts := unix.NsecToTimespec(ns)
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		// monotonic is a call that may be preempted: it is where a goroutine gives way to garbage collection.
		if errno != unix.EINTR || monotonic() >= ns {
			return
		}
	}
}
