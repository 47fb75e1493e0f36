package attach

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Pauser stops all threads of a process for a moment, with ptrace's SEIZE and INTERRUPT (ptrace(2)), which leave no trace
// of themselves in the program: no signal is sent. It is for one goroutine.
//
// What a stop does to the program nevertheless: a system call that a thread sleeps in is interrupted and restarted by the
// kernel. Those that signal(7) lists as never restarted fail with EINTR, as they do when a program is stopped and
// continued by a shell: epoll_wait, sigtimedwait, semop, reads of an inotify descriptor, sockets with a timeout. Ruby
// itself expects EINTR everywhere.
//
// All ptrace calls come from an OS thread of its own, because the kernel lets go of everything that a thread has seized when
// that thread ends, however it ends: when ddtop is killed, and when a thread of the target can't be let go in the
// regular way, because it has not stopped (in vfork, in uninterruptible sleep) or is about to die.
type Pauser struct {
	p     *Process
	limit time.Duration
	// onThread is called on each OS thread that traces.
	onThread func()
	// dir is /proc/PID/task, kept open.
	dir *os.File
	// tracer is the thread that traces; nil when none runs. before is the tid of the one before it, which may not have
	// quite ended. lagging: the tracer has not answered the last order yet.
	tracer  *tracer
	before  int
	lagging bool
}

// NewPauser prepares for pauses of at most limit, and tries one, which stops the process for a moment. onThread, which may
// be nil, is called on each OS thread that will trace, before it does. The error is a *TargetError that is ErrTraced,
// ErrPermission or ErrGone.
//
// When the process is our own child, its parent part (os/exec) may wait for it only once it has ended (a pidfd tells): a
// wait that is under way would take the stops for exits.
func (p *Process) NewPauser(limit time.Duration, onThread func()) (*Pauser, error) {
	dir, err := p.openProc("task")
	if err != nil {
		return nil, p.lost(err)
	}
	z := &Pauser{p: p, limit: limit, onThread: onThread, dir: dir}
	if _, err := z.Pause(func() {}); err != nil {
		z.Close()
		return nil, err
	}
	return z, nil
}

// Pause stops all threads, calls read, and lets the threads go when it returns, or before when the limit is up. When they
// can't all be stopped within the limit they are let go and read is called anyway: Pause.Cut tells. read is not
// called when there is an error; no thread is left stopped then either. Errors are as those of NewPauser.
func (z *Pauser) Pause(read func()) (Pause, error) {
	if z.tracer == nil {
		z.tracer = z.start()
	}
	t := z.tracer
	if !z.lagging {
		t.order <- struct{}{}
	}
	var err error
	if z.lagging, err = t.awaitStopped(z.lagging); z.lagging {
		read()
		return Pause{Cut: true}, nil
	}
	if err != nil {
		z.end()
		return Pause{}, err
	}
	read()
	t.done <- struct{}{} // never waits: the tracer may have ended long ago
	result := <-t.released
	if t.unclean {
		z.end()
	}
	return result, nil
}

// slowSeize is how long after the order to stop the tracer is looked after. It has mostly long answered.
const slowSeize = time.Millisecond

// awaitStopped waits for the tracer's answer, for twice the limit at most; with late, not at all. lagging: there was
// none.
//
// The tracer waits in PTRACE_SEIZE while a thread of the process is in execve. That one in turn waits for all others to
// die (de_thread in fs/exec.c), and the death of those seized already is first reported to us, who would wait forever,
// and the process with us: any thread of ours may ask for it in the tracer's place.
func (t *tracer) awaitStopped(late bool) (lagging bool, err error) {
	if late {
		t.reap()
		select {
		case err = <-t.stopped:
			return false, err
		default:
			return true, nil
		}
	}
	t.patience.Reset(slowSeize)
	defer t.patience.Stop()
	for giveUp := monotonicNS() + 2*int64(t.z.limit); ; {
		select {
		case err = <-t.stopped:
			return false, err
		case <-t.patience.C:
		}
		t.reap()
		if monotonicNS() >= giveUp {
			go t.reapUntilStopped()
			return true, nil
		}
		t.patience.Reset(slowSeize)
	}
}

// reapUntilStopped is for a tracer whose answer nobody may ever come back for.
func (t *tracer) reapUntilStopped() {
	for t.stopping.Load() {
		t.reap()
		time.Sleep(slowSeize)
	}
}

// reap asks for the ends of the threads that the tracer has seized. It belongs to no thread.
func (t *tracer) reap() {
	t.seizedMu.Lock()
	defer t.seizedMu.Unlock()
	left := t.seized[:0]
	for _, tid := range t.seized {
		if t.ownChild && int(tid) == t.z.p.pid {
			continue // its end is for who started it
		}
		// A stop is told whatever was asked for (wait_task_stopped in kernel/exit.c), and once: it is for the tracer.
		switch code, _, err := waitID(tid, unix.WEXITED|unix.WNOWAIT); {
		case err != nil: // the tracer has asked already
		case code == cldExited || code == cldKilled || code == cldDumped:
			_, _, _ = waitID(tid, unix.WEXITED) // what it says is known
		default:
			left = append(left, tid)
		}
	}
	t.seized = left
}

// Close lets go of the process for good.
func (z *Pauser) Close() {
	z.end()
	z.dir.Close()
}

// end ends the thread that traces, and with it what it may still hold.
func (z *Pauser) end() {
	if z.tracer != nil {
		z.before = z.tracer.tid
		close(z.tracer.order)
		if z.lagging {
			z.tracer.done <- struct{}{} // nobody comes back for its answer
		}
		z.tracer, z.lagging = nil, false
	}
}

var (
	// errStillHeld: the thread that traced before has not quite ended yet.
	errStillHeld = errors.New("still traced by ourselves")
	// errLate: the time was up before all threads were seized.
	errLate = errors.New("not all threads were seized in time")
)

// tracer is the goroutine that traces, on an OS thread of its own that ends with it.
type tracer struct {
	z   *Pauser
	tid int
	// ownChild: the target is our own child, so its main thread's end is not ours to ask for.
	ownChild bool

	order, done chan struct{}
	stopped     chan error
	released    chan Pause
	timer       *time.Timer
	// patience is the timer of the goroutine that waits for the answer.
	patience *time.Timer
	// stopping: an order to stop is being obeyed.
	stopping atomic.Bool
	seizedMu sync.Mutex // guards what follows
	// seized are the numbers in list, for reap.
	seized []int32

	// list are the threads of the pause under way, seen the same by their tid.
	list    []tracee
	seen    map[int32]struct{}
	entries []byte
	result  Pause
	// startNS is the first order to stop, endNS when the time is up; CLOCK_MONOTONIC.
	startNS, endNS int64
	// unclean: something could not be let go of but by the end of this thread. Written before released is sent to.
	unclean bool
}

func (z *Pauser) start() *tracer {
	t := &tracer{
		z: z, ownChild: z.p.ppid() == os.Getpid(),
		order: make(chan struct{}), done: make(chan struct{}, 1), stopped: make(chan error, 1), released: make(chan Pause, 1),
		timer: time.NewTimer(time.Hour), patience: time.NewTimer(time.Hour), seen: make(map[int32]struct{}), entries: make([]byte, 32<<10),
	}
	t.timer.Stop()
	t.patience.Stop()
	ready := make(chan struct{})
	OnOwnThread(func() {
		t.tid = unix.Gettid()
		if z.onThread != nil {
			z.onThread()
		}
		close(ready)
		t.run()
	})
	<-ready
	return t
}

func (t *tracer) run() {
	for range t.order {
		t.stopping.Store(true)
		all, err := t.stopAll()
		t.stopping.Store(false)
		if err != nil {
			t.release()
			t.stopped <- err
			continue
		}
		within := all // the reading is over before anything goes on
		if all {
			t.timer.Reset(time.Duration(t.endNS - monotonicNS()))
			t.stopped <- nil
			select {
			case <-t.done:
				t.timer.Stop()
			case <-t.timer.C:
				within = false
			}
		}
		t.release()
		t.result.Cut = !within
		t.released <- t.result
		if !all {
			t.stopped <- nil
		}
		if t.unclean {
			// The end of this thread is what lets go, so it must not wait for the reading: a thread that was told to stop and
			// has not does so when it comes back from the kernel, perhaps with the GVL.
			return
		}
		if !within {
			<-t.done
		}
	}
}

// traceState is how far a thread is on its way into the stop and out of it.
type traceState uint8

const (
	traceSeized traceState = iota
	traceStopped
	traceEnded // and its end was asked for, as its tracer has to
)

type tracee struct {
	tid   int32
	state traceState
	// signal was on its way to the thread when it stopped: it is delivered at its release.
	signal uintptr
}

const (
	// maxPauseRounds bounds how often the list of threads is read for ones born meanwhile. Those that can give birth get
	// fewer each time.
	maxPauseRounds = 64
	// pollNS is the time between two looks whether threads have stopped: there is no wait with a time limit.
	pollNS = 20_000
)

// stopAll stops all threads, those born meanwhile too; all is false when the time was up before.
func (t *tracer) stopAll() (all bool, err error) {
	t.list, t.result = t.list[:0], Pause{}
	t.seizedMu.Lock()
	t.seized = t.seized[:0]
	t.seizedMu.Unlock()
	clear(t.seen)
	now := monotonicNS()
	t.startNS, t.endNS = now, now+int64(t.z.limit)
	for range maxPauseRounds {
		known := len(t.list)
		if err := t.seizeNew(); errors.Is(err, errStillHeld) || errors.Is(err, errLate) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if len(t.list) == known {
			return true, nil
		}
		if known == 0 {
			t.startNS = monotonicNS()
		}
		for i := known; i < len(t.list); i++ {
			// A failure means that it is dying, which await notices.
			_ = ptrace(unix.PTRACE_INTERRUPT, t.list[i].tid, 0)
		}
		if !t.await(known) {
			return false, nil
		}
	}
	return false, nil
}

// seizeNew seizes the threads that are not known yet.
func (t *tracer) seizeNew() error {
	if _, err := unix.Seek(int(t.z.dir.Fd()), 0, unix.SEEK_SET); err != nil {
		return fmt.Errorf("listing the threads of process %d: %w", t.z.p.pid, err)
	}
	for {
		n, err := unix.Getdents(int(t.z.dir.Fd()), t.entries)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return t.z.p.lost(fmt.Errorf("listing the threads of process %d: %w", t.z.p.pid, err))
		case n <= 0:
			if len(t.seen) == 0 {
				return &TargetError{PID: t.z.p.pid, Kind: ErrGone}
			}
			return nil
		}
		for b := t.entries[:n]; len(b) > direntName; {
			size := int(b[direntSize]) | int(b[direntSize+1])<<8
			if size <= direntName || size > len(b) {
				break
			}
			tid, ok := leadingNumber(b[direntName:size])
			b = b[size:]
			if !ok {
				continue // "." and ".."
			}
			if _, known := t.seen[tid]; known {
				continue
			}
			t.seen[tid] = struct{}{}
			if err := t.seize(tid); err != nil {
				return err
			}
		}
	}
}

// Offsets within a linux_dirent64 (getdents64(2)).
const direntSize, direntName = 16, 19

// leadingNumber reads the name of a directory entry, which a zero ends, when it is a number.
func leadingNumber(b []byte) (n int32, ok bool) {
	for _, c := range b {
		if c == 0 {
			break
		}
		if c < '0' || c > '9' || n > 1<<27 {
			return 0, false
		}
		n, ok = n*10+int32(c-'0'), true
	}
	return n, ok
}

// add takes a thread in that was seized.
func (t *tracer) add(tid int32) {
	t.list = append(t.list, tracee{tid: tid})
	t.seizedMu.Lock()
	t.seized = append(t.seized, tid)
	t.seizedMu.Unlock()
}

func (t *tracer) seize(tid int32) error {
	if monotonicNS() >= t.endNS {
		return errLate
	}
	err := seizeThread(tid)
	switch {
	case err == nil:
		t.add(tid)
		return nil
	case errors.Is(err, unix.ESRCH):
		return nil // it has ended
	}
	refusal := t.refused(tid, err)
	if errors.Is(refusal, ErrPermission) && seizeThread(tid) == nil {
		// It had a tracer, which was gone when its status was read: the thread that traced before us, on its way out.
		t.add(tid)
		return nil
	}
	return refusal
}

// refused explains why a thread could not be seized; nil when there is nothing of it to stop.
func (t *tracer) refused(tid int32, err error) error {
	p := t.z.p
	text, readErr := p.readProc("task/" + strconv.Itoa(int(tid)) + "/status")
	if readErr != nil {
		return nil // it has ended
	}
	if state := statusField(text, "State:"); strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X") {
		return nil // ended, its number is still there: a main thread that others have outlived
	}
	if tracer := parseStatus(text).TracerPID; tracer != 0 {
		// The number is that of the tracer's thread.
		name, of := "", tracer
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tracer)); err == nil {
			name = statusField(text, "Name:")
			if n, err := strconv.Atoi(statusField(text, "Tgid:")); err == nil {
				of = n
			}
		}
		if of == os.Getpid() || tracer == t.z.before || name == "" && !t.tracedBy(tid, tracer) {
			return errStillHeld
		}
		return &TargetError{PID: p.pid, Kind: ErrTraced, Cause: fmt.Sprintf("process %d (%s); a process has one tracer at a time", of, name), Programs: []string{name},
			Help: fmt.Sprintf("Go on without --pause, or end that tracer: `kill %d`.", of), Err: err}
	}
	doing := fmt.Sprintf("stopping its thread %d (PTRACE_SEIZE)", tid)
	if errors.Is(err, unix.ENOSYS) {
		return &TargetError{PID: p.pid, Kind: ErrPermission, Cause: "ptrace(2) is not available (a sandbox or a seccomp filter)",
			Help: "Go on without --pause.", Err: fmt.Errorf("%s: %w", doing, err)}
	}
	return p.refused(doing, err)
}

// tracedBy reports whether a thread still has a tracer of that number: one that can't be looked at may have been an
// earlier one of ours, on its way out.
func (t *tracer) tracedBy(tid int32, tracer int) bool {
	text, err := t.z.p.readProc("task/" + strconv.Itoa(int(tid)) + "/status")
	return err == nil && parseStatus(text).TracerPID == tracer
}

// statusField returns a field of /proc/PID/status, such as "State:".
func statusField(text []byte, name string) string {
	for line := range strings.SplitSeq(string(text), "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// await waits until the threads from the first one on have stopped or ended; false: the time was up before.
func (t *tracer) await(first int) bool {
	for {
		waiting := false
		for i := first; i < len(t.list); i++ {
			if x := &t.list[i]; x.state == traceSeized && !t.look(x) {
				waiting = true
			}
		}
		if !waiting {
			return true
		}
		if monotonicNS() >= t.endNS {
			return false
		}
		shortSleep(pollNS)
	}
}

// look asks whether a thread has stopped or ended, and notes it.
func (t *tracer) look(x *tracee) bool {
	// The end of a thread whose tracer we are is reported to us first, and until we have asked for it nobody else learns of
	// it: neither those that wait for the process. But the end of our own child is for who started it.
	options := unix.WSTOPPED | unix.WEXITED
	if t.ownChild && int(x.tid) == t.z.p.pid {
		options = unix.WSTOPPED
	}
	code, status, err := waitID(x.tid, options)
	switch {
	case err != nil:
		x.state = traceEnded // no thread of ours any more: it ended, or called exec and has another number now
		t.unclean = true
		return true
	case code == 0:
		return false
	case code == cldTrapped || code == cldStopped:
		x.state = traceStopped
		if status>>8 == 0 {
			x.signal = uintptr(status) // stopped at the delivery of a signal
		}
		return true
	}
	x.state = traceEnded
	return true
}

// release lets all threads go, with the signals that were on their way.
func (t *tracer) release() {
	for i := range t.list {
		x := &t.list[i]
		if x.state == traceSeized {
			t.look(x)
		}
		switch x.state {
		case traceStopped:
			t.result.Threads++
			if ptrace(unix.PTRACE_DETACH, x.tid, x.signal) != nil {
				t.unclean = true // killed while it stood
			}
		case traceSeized:
			t.unclean = true // it has not stopped
		}
	}
	if len(t.list) > 0 {
		t.result.NS = monotonicNS() - t.startNS
	}
	t.list = t.list[:0]
}
