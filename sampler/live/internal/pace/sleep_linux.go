package pace

import (
	"errors"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// timerSleepNS is the shortest sleep that uses a timer, in ns. Only a slow clock sleeps that long.
	timerSleepNS = 20_000_000
	// toldSleepNS is the shortest sleep that ddtop announces to Go's scheduler, in ns, if it was able to slow down Go's
	// monitor thread. During an announced sleep, the scheduler may give the sleeper's processor to another goroutine.
	// On a full machine, the sleeper must then wait for a processor. This must not delay ticks at full rates, whose
	// sleeps are shorter.
	toldSleepNS = 5_000_000
)

// monitorSlackNS is how late Go's monitor thread may wake up, in ns. While a system call lasts, this thread asks the
// kernel for sleeps of only 20 µs. But its work can wait for 10 ms and more. With 100 readings per second and a slack
// of 4 ms, it woke up 140 times per second, which took 0.25 % of a CPU. With 20 ms it woke up 35 times, which took 0.08
// %.
const monitorSlackNS = 25_000_000

// Sleeper sleeps for one goroutine that has an OS thread of its own. It has two ways to sleep.
// docs/internals/reading.md#what-it-costs has the reasons, with figures.
//
// A short sleep is not announced to Go's scheduler. The thread keeps its processor of Go's scheduler during the sleep,
// so ddtop adds a processor (Processors). In a longer sleep, the thread must not keep the processor. If ddtop could
// slow down Go's monitor thread, a longer sleep is an ordinary system call. Otherwise the thread waits for a timer with
// a descriptor (timerfd).
type Sleeper struct {
	told  bool     // longer sleeps are announced to Go's scheduler
	timer *os.File // nil if the sleeper uses no timer
	fd    int
	// woken counts the calls of Wake. A change of woken ends a long sleep.
	woken atomic.Uint32
}

// NewSleeper returns a sleeper. Unless exactTimers is true, it first tries to slow down Go's monitor thread. This also
// makes the timers inexact in threads that the monitor thread starts later.
func NewSleeper(exactTimers bool) *Sleeper {
	if !exactTimers && slowMonitor() == nil {
		return &Sleeper{told: true}
	}
	return newUntold()
}

// newUntold returns a sleeper that is used if Go's monitor thread could not be slowed down. During an ordinary system
// call, that thread would wake up every 20 µs. So the sleeper uses a timer. If the kernel gives no timer, because no
// descriptors are left, the sleeper works without one and costs more.
func newUntold() *Sleeper {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return &Sleeper{}
	}
	return &Sleeper{timer: os.NewFile(uintptr(fd), "timer"), fd: fd}
}

// Close frees the timer.
func (z *Sleeper) Close() {
	if z.timer != nil {
		_ = z.timer.Close() // nothing is lost
	}
}

// Until sleeps until CLOCK_MONOTONIC reaches ns, or Wake is called. woken reports whether Wake ended the sleep.
func (z *Sleeper) Until(ns int64) (woken bool) {
	d := ns - Monotonic()
	switch {
	case z.told && d > toldSleepNS:
		return z.sleepTold(ns)
	case z.told || d <= timerSleepNS:
		sleepShort(ns)
	case z.timer == nil || !z.wait(ns):
		time.Sleep(time.Duration(d))
	}
	return false
}

// wait waits until the timer ends at ns. It returns false if it cannot set or read the timer.
func (z *Sleeper) wait(ns int64) bool {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(ns)}
	if unix.TimerfdSettime(z.fd, unix.TFD_TIMER_ABSTIME, &at, nil) != nil {
		return false
	}
	var expired [8]byte // the number of expirations, which the kernel writes
	_, err := z.timer.Read(expired[:])
	return err == nil
}

// Wakes reports whether Wake ends a long sleep.
func (z *Sleeper) Wakes() bool { return z.told }

// Wake ends a long sleep. If no sleep is in progress, the next one ends at once. Any goroutine may call it.
func (z *Sleeper) Wake() {
	z.woken.Add(1)
	// the result is how many sleepers woke up, which is not needed
	_, _, _ = unix.RawSyscall(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&z.woken)), futexWake|futexPrivate, 1)
}

// The operations of futex(2), and the mask that every waker matches (linux/futex.h).
const (
	futexWake, futexWaitBitset, futexPrivate = 1, 9, 128
	futexAnyWaker                            = 1<<32 - 1
)

// sleepTold sleeps until CLOCK_MONOTONIC reaches ns, or until Wake is called. A call of Wake since the last sleep also
// ends it. During the sleep other goroutines may use Go's processor.
func (z *Sleeper) sleepTold(ns int64) (woken bool) {
	ts := unix.NsecToTimespec(ns)
	for z.woken.Swap(0) == 0 {
		_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&z.woken)), futexWaitBitset|futexPrivate, 0,
			uintptr(unsafe.Pointer(&ts)), 0, futexAnyWaker)
		if errno == unix.ETIMEDOUT || Monotonic() >= ns {
			return false
		}
	}
	return true
}

// sleepShort sleeps until CLOCK_MONOTONIC reaches ns, and keeps Go's processor during the sleep. Go's garbage
// collection does not have to wait for the end of the sleep: Go's runtime sends a signal, which ends the system call
// with EINTR.
func sleepShort(ns int64) {
	ts := unix.NsecToTimespec(ns)
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
		// A signal has interrupted the sleep. In the call of Monotonic, Go can stop the goroutine so that garbage
		// collection begins. Then continue the sleep.
		if errno != unix.EINTR || Monotonic() >= ns {
			return
		}
	}
}

// slowMonitor allows Go's monitor thread (runtime.sysmon) to wake up late, by monitorSlackNS (timer slack). This needs
// CAP_SYS_NICE and Linux 4.6. A thread that the monitor thread starts inherits the slack (prctl(2)). Threads that need
// exact timers ask for them (RaisePriority).
func slowMonitor() error {
	tid, err := monitorThread()
	if err != nil {
		return err
	}
	slack, err := os.OpenFile("/proc/"+tid+"/timerslack_ns", os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = slack.WriteString(strconv.Itoa(monitorSlackNS))
	return errors.Join(err, slack.Close())
}

// monitorThread returns the tid of Go's monitor thread. A Go program's first thread starts the monitor thread before
// any other thread, so the monitor thread is the second in the list. If a later release of Go starts another thread
// first, slowMonitor slows that thread down instead. This does no harm, but sleeps then cost more.
func monitorThread() (tid string, err error) {
	tasks, err := os.Open("/proc/self/task")
	if err != nil {
		return "", err
	}
	defer tasks.Close()
	tids, err := tasks.Readdirnames(2) // the first two threads that were started
	if len(tids) < 2 {
		return "", errors.Join(err, unix.ESRCH)
	}
	return tids[1], nil
}
