package attach

import (
	"errors"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchPeriod is the interval at which /proc is read to see whether the process lives, if the kernel has no pidfd.
const watchPeriod = 250 * time.Millisecond

// Check returns nil if the process is still the one that was opened. Otherwise the error is ErrGone (all its threads
// have ended) or ErrReplaced (exec: everything learned about its memory is invalid). Any other error means that the
// kernel did not answer, and proves nothing about the process. Check costs two system calls, about 3 µs, or 10 µs if
// the kernel has no pidfd. It is enough to call Check once or twice per second.
func (p *procFolder) Check() error {
	if err := p.stillThere(); err != nil {
		return err
	}
	var now [16]byte
	err := p.Read(p.randomAt, now[:])
	switch {
	case err == nil && now == p.random:
		return nil
	case errors.Is(err, ErrGone):
		// No thread has memory. Either the process is ending, or a thread calls exec and is about to take the first
		// thread's place. A later Check shows which.
		return p.stillThere()
	}
	if gone := p.stillThere(); gone != nil {
		return gone
	}
	if err != nil && !errors.Is(err, ErrUnmapped) {
		return err // the kernel refused the read, or ddtop lacks memory; this proves nothing about the process
	}
	// Each exec makes 16 new random bytes. Now the bytes have changed, or there is no memory at their address. So the
	// process runs another program.
	return &TargetError{PID: p.pid, Kind: ErrReplaced, Cause: "it has called exec", Help: "Attach again to look at the new program."}
}

// Alive reports, with one short system call, whether the process is still alive. A true result is certain: the PID has
// not been reused since the process was opened. So everything that was read by this PID came from this process,
// although it may run another program after an exec. A false result means that the process has ended, or that the
// kernel has no pidfd. Check shows which of the two is true.
func (p *procFolder) Alive() bool {
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
		// This call never waits. So it can bypass Go's scheduler (see liveMemory.readv for calls that wait).
		n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1,
			uintptr(unsafe.Pointer(&now)), 0, 0, 0)
		alive = errno == 0 && n == 0
	})
	return err == nil && alive
}

// stillThere returns ErrGone if all threads of the process have ended. It returns nil if a thread lives, even after an
// exec, and also if it cannot find out. Only the pidfd, ESRCH and ENOENT prove that a process has ended. A read of
// /proc can also fail because ddtop has no descriptors left, or the machine has no memory. kill(2) needs neither
// descriptors nor memory, so stillThere also uses kill(2).
func (p *procFolder) stillThere() error {
	if p.Alive() {
		return nil
	}
	gone := &TargetError{PID: p.pid, Kind: ErrGone}
	first, err := statIn(int(p.dir.Fd()), "stat")
	switch {
	case isGone(err), err == nil && first.StartTicks != p.stat.StartTicks:
		return gone
	case err == nil && !first.ended():
		return nil
	}
	// If a thread other than the first calls exec, the first thread is a zombie until the calling thread takes its
	// place. If this happens between two reads of /proc, all threads seem to have ended. The pidfd shows whether the
	// process has really ended.
	if fd := p.exitFD(); fd >= 0 && readable(fd) || errors.Is(unix.Kill(p.pid, 0), unix.ESRCH) {
		return gone
	} else if fd >= 0 {
		return nil
	}
	if err != nil || !p.allEnded() {
		return nil
	}
	if first, err = statIn(int(p.dir.Fd()), "stat"); isGone(err) || err == nil && first.ended() {
		return gone
	}
	return nil
}

// allEnded reports whether all threads have ended in a process whose first thread has ended. It returns false if it
// cannot find this out.
func (p *procFolder) allEnded() bool {
	fd, _, err := OpenLiving(int(p.dir.Fd()), p.pid)
	if err == nil {
		unix.Close(fd)
	}
	return isGone(err)
}

// Exited returns a channel that is closed when the process has ended, even if it is still a zombie. The first call
// starts one goroutine, which ends when the process ends or Close is called.
func (p *procFolder) Exited() <-chan struct{} {
	p.watch.Do(func() { go p.waitForExit() })
	return p.exited
}

func (p *procFolder) waitForExit() {
	if p.pidfd != nil {
		if raw, err := p.pidfd.SyscallConn(); err == nil {
			// Read calls the function at once, and again when the pidfd becomes readable, which is when the process
			// ends. Until the function returns true, Read parks the goroutine. Close also makes Read return.
			err = raw.Read(func(fd uintptr) bool { return readable(int(fd)) })
			if err == nil {
				close(p.exited)
				return
			}
		}
	}
	tick := time.NewTicker(watchPeriod)
	defer tick.Stop()
	for {
		select {
		case <-p.closed:
			return
		default:
		}
		if p.stillThere() != nil {
			close(p.exited)
			return
		}
		select {
		case <-p.closed:
			return
		case <-tick.C:
		}
	}
}

func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && n == 1
	}
}
