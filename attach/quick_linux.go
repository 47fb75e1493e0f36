package attach

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// quickNS is how long a call may take that counts as quick, in ns.
	quickNS = time.Millisecond
	// quickRest is for how long, after one that took longer, calls are made in the usual way.
	quickRest = 100 * time.Millisecond
	// maxQuickRanges and maxQuickBytes bound a read of memory that is thought to be quick: some 0.3 ms.
	maxQuickRanges = 512
	maxQuickBytes  = 512 << 10
)

// QuickCalls makes system calls that take some microseconds without telling Go's scheduler. The sampling goroutine seems to it
// to run on and on (sampler/live: sleepUntil), so when the scheduler's monitor thread finds it inside a call it takes the
// processor from it, and then looks every 20 µs, for milliseconds, whether there is more to take: on an idle machine that costs
// more than the ticks do.
//
// Garbage collection has to wait for the end of such a call. So when one takes longer than a millisecond, because the target's
// mappings are locked or its memory is swapped out, those of the next 100 ms are made in the usual way. The zero value is
// ready to use, by one goroutine at a time.
type QuickCalls struct {
	slowUntil time.Time
}

// Call makes a system call like syscall.Syscall6.
//
//go:uintptrescapes
func (q *QuickCalls) Call(trap, a1, a2, a3, a4, a5, a6 uintptr) (uintptr, syscall.Errno) {
	begun := time.Now()
	if begun.Before(q.slowUntil) {
		r, _, errno := syscall.Syscall6(trap, a1, a2, a3, a4, a5, a6)
		return r, errno
	}
	r, _, errno := syscall.RawSyscall6(trap, a1, a2, a3, a4, a5, a6)
	if now := time.Now(); now.Sub(begun) > quickNS {
		q.slowUntil = now.Add(quickRest)
	}
	return r, errno
}

// Alive tells in one short system call whether the process has not ended: true is certain, and whatever was read by its PID
// before was this process's, as itself or as the program that an exec has made of it. False means that it has ended, or that
// the kernel has no pidfd; Check tells.
func (p *Process) Alive() bool {
	if p.pidfd == nil {
		return false
	}
	raw, err := p.pidfd.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	err = raw.Control(func(fd uintptr) {
		fds := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
		var now unix.Timespec
		// It does not wait, so Go's scheduler need not know of it (see QuickCalls).
		n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
		alive = errno == 0 && n == 0
	})
	return err == nil && alive
}
