package attach

import (
	"errors"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// watchPeriod is how often /proc is asked whether the process lives, where the kernel has no pidfd.
const watchPeriod = 250 * time.Millisecond

// Check asks whether the process is still the one that was opened: nil, or an error that is ErrGone (ended, or a
// zombie) or ErrReplaced (exec: what was learned about its memory is void). It costs two or three system calls, some
// 10 µs; once or twice a second is enough.
func (p *Process) Check() error {
	if err := p.stillThere(); err != nil {
		return err
	}
	var now [16]byte
	err := p.Read(p.randomAt, now[:])
	switch {
	case err == nil && now == p.random:
		return nil
	case errors.Is(err, ErrGone):
		// Its main thread is a zombie: the process ends, or another thread calls exec and is about to take its place. Which,
		// a later look tells.
		return p.stillThere()
	}
	if gone := p.stillThere(); gone != nil {
		return gone
	}
	// The kernel draws 16 new random bytes at each exec: other bytes, or none at their place, mean another program.
	return &TargetError{PID: p.pid, Kind: ErrReplaced, Cause: "it has called exec", Help: "Attach again to look at the new program."}
}

// Alive reports, in one short system call, whether the process has not ended: true is certain, and whatever was read by its
// PID before was this process's, as itself or as the program that an exec has made of it. False means that it has
// ended, or that the kernel has no pidfd; Check tells.
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
		// It never waits, so Go's scheduler need not know of it: see liveMemory.readv.
		n, _, errno := syscall.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 1,
			uintptr(unsafe.Pointer(&now)), 0, 0, 0)
		alive = errno == 0 && n == 0
	})
	return err == nil && alive
}

// stillThere returns nil while the process lives, even as another program.
func (p *Process) stillThere() error {
	zombie, err := p.zombie()
	if err != nil || !zombie {
		return err
	}
	// When another thread than the main one calls exec, the main one is a zombie until that thread takes its place. Two looks
	// at /proc may be before and after that; a pidfd tells at once.
	if fd := p.exitFD(); fd >= 0 {
		if readable(fd) {
			return &TargetError{PID: p.pid, Kind: ErrGone}
		}
		return nil
	}
	if p.leaderOnly() {
		if zombie, err = p.zombie(); err == nil && zombie {
			return &TargetError{PID: p.pid, Kind: ErrGone}
		}
	}
	return err
}

// zombie reports whether the main thread has ended. The error is ErrGone: nothing or another process has the PID.
func (p *Process) zombie() (bool, error) {
	text, err := p.readProc("stat")
	if err != nil {
		return false, &TargetError{PID: p.pid, Kind: ErrGone}
	}
	s, err := parseStat(text)
	if err != nil {
		return false, &TargetError{PID: p.pid, Kind: ErrGone, Err: err}
	}
	if s.StartTicks != p.stat.StartTicks {
		return false, &TargetError{PID: p.pid, Kind: ErrGone}
	}
	return s.State == 'Z' || s.State == 'X', nil
}

// leaderOnly reports whether the main thread is the only one left. A process whose main thread has ended by pthread_exit
// shows as a zombie in /proc while its other threads live on.
func (p *Process) leaderOnly() bool {
	var buf [4]int32
	tids, err := p.TIDs(buf[:0])
	return err != nil || len(tids) <= 1
}

// Exited returns a channel that is closed when the process has ended (also as a zombie). It starts one goroutine at its
// first call, which ends with the process or at Close.
func (p *Process) Exited() <-chan struct{} {
	p.watch.Do(func() { go p.waitForExit() })
	return p.exited
}

func (p *Process) waitForExit() {
	if p.pidfd != nil {
		if raw, err := p.pidfd.SyscallConn(); err == nil {
			// Read parks the goroutine in the runtime's poller until the function returns true: at the start, and
			// each time the pidfd becomes readable, which is when the process ends. Close makes it return.
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
