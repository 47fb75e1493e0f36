package attach

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are the system calls of a pause. All but seizeThread bypass Go's scheduler, which is allowed because they don't
// block. During an ordinary system call, the scheduler can run another goroutine in place of this one. The pause would
// then last longer.

// seizeThread makes the calling thread the tracer of another thread, without stopping that thread. It waits while a
// thread of the target is within execve, which holds the target's cred_guard_mutex (ptrace_attach in kernel/ptrace.c,
// Linux 6.18).
func seizeThread(tid int32) error {
	if _, _, errno := syscall.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(tid), 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// ptrace makes a request about a thread. For PTRACE_DETACH, data is the signal to deliver.
func ptrace(request int, tid int32, data uintptr) error {
	if _, _, errno := syscall.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), 0, data, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// These values say what happened to a thread: si_code of a SIGCHLD (sigaction(2)).
const (
	cldExited  = 1
	cldKilled  = 2
	cldDumped  = 3
	cldTrapped = 4
	cldStopped = 5
)

// siginfo is the result of waitid, as on all 64-bit machines (siginfo_t of the kernel's headers).
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [100]byte
}

// waitID asks, without waiting, what happened to a traced thread. code is zero if nothing happened. For a stop, the
// low eight bits of status are the signal. The bits above are the event (PTRACE_EVENT_STOP).
func waitID(tid int32, options int) (code, status int32, err error) {
	var info siginfo
	for {
		_, _, errno := syscall.RawSyscall6(unix.SYS_WAITID, unix.P_PID, uintptr(tid), uintptr(unsafe.Pointer(&info)),
			uintptr(options|unix.WNOHANG|unix.WALL), 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return 0, 0, errno
		}
		if info.pid == 0 {
			return 0, 0, nil
		}
		return info.code, info.status, nil
	}
}

// monotonicNS returns the time of CLOCK_MONOTONIC in ns.
func monotonicNS() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return 0 // can't fail with a valid clock
	}
	return ts.Nano()
}

// shortSleep lets other threads use the CPU for a moment. A thread of the target must run to notice that it has to
// stop. The sleep may end early.
func shortSleep(ns int64) {
	ts := unix.NsecToTimespec(ns)
	_, _, _ = syscall.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}
