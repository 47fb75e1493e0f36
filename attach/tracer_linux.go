package attach

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

var (
	// errStillHeld means that ddtop's previous tracer thread still traces a thread of the target. The previous tracer
	// thread has not ended yet.
	errStillHeld = errors.New("still traced by ourselves")
	// errLate means that the time limit was reached before all threads were seized.
	errLate = errors.New("not all threads were seized in time")
)

// tracer is the goroutine that stops the target's threads with ptrace(2). It has its own OS thread, which ends when
// the goroutine ends.
type tracer struct {
	z   *Pauser
	tid int
	// ownChild is true if the target is a child of ddtop. The code that started the target then waits for the report
	// that its main thread has ended. So the tracer must not collect this report (waitid).
	ownChild bool

	order, done chan struct{}
	stopped     chan error
	released    chan Pause
	timer       *time.Timer
	// patience is a timer for the goroutine that waits for the tracer's answer. When the timer fires, that goroutine
	// calls reap, which collects ended threads.
	patience *time.Timer
	// stopping is true while the tracer stops threads (stopAll).
	stopping atomic.Bool
	seizedMu sync.Mutex // guards the following fields
	// seized are the tids of the threads in list that are traced. If such a thread ends, ddtop must collect the report
	// of its end (waitid), as a parent does for a child. Either the tracer or the method reap collects the report.
	seized []int32

	// list are the threads of the current pause. seen has the tids that the tracer has tried to seize.
	list    []tracee
	seen    map[int32]struct{}
	entries []byte
	result  Pause
	// startNS is when the first thread was ordered to stop. endNS is when the pause must end. Both are CLOCK_MONOTONIC
	// in ns.
	startNS, endNS int64
	// unclean is true if there is a thread that the tracer could not release. The kernel releases such a thread only
	// when the tracer's OS thread ends. The tracer sets unclean before it sends to t.released. So code that has
	// received from t.released may read unclean.
	unclean bool
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
		within := all // true if all threads stay stopped until the reading ends
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
			// Some threads could not be released. The kernel releases them when this OS thread ends. So end at once,
			// even if the caller still reads. If the tracer continued, a thread that has not stopped yet would stop
			// when it returns from the kernel, perhaps while it holds the GVL.
			return
		}
		if !within {
			<-t.done
		}
	}
}

// traceState says how far the tracer has come with stopping a thread.
type traceState uint8

const (
	traceSeized traceState = iota
	traceStopped
	traceEnded // the thread has ended, and the tracer has collected the report of its end
)

type tracee struct {
	tid   int32
	state traceState
	// signal is the signal that was about to be delivered when the thread stopped. release delivers it.
	signal uintptr
}

const (
	// maxPauseRounds limits how often one pause reads the list of threads to find new ones. Each round stops the
	// threads that it finds. So after each round, fewer threads still run that could start new threads.
	maxPauseRounds = 64
	// pollNS is the interval at which the tracer checks whether threads have stopped, in ns. It polls because the
	// kernel's wait has no time limit.
	pollNS = 20_000
)

// stopAll stops all threads of the target, also threads that start in the meantime. The result all is false if endNS or
// maxPauseRounds was reached before all threads had stopped.
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
			// An error means that the thread is dying. The function await notices this later, so ignore the error here.
			_ = ptrace(unix.PTRACE_INTERRUPT, t.list[i].tid, 0)
		}
		if !t.await(known) {
			return false, nil
		}
	}
	return false, nil
}

// seizeNew seizes the threads of the target that the tracer has not tried to seize yet.
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

// These are offsets within a linux_dirent64 (getdents64(2)).
const direntSize, direntName = 16, 19

// leadingNumber parses the name of a directory entry as a number. A zero byte ends the name. ok is false for any other
// name.
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

func (t *tracer) add(tid int32) {
	t.list = append(t.list, tracee{tid: tid})
	t.seizedMu.Lock()
	t.seized = append(t.seized, tid)
	t.seizedMu.Unlock()
}

func (t *tracer) seize(tid int32) error {
	// The first thread is seized even if the time limit is reached. So ddtop always notices if the kernel refuses to
	// let it trace the target.
	if len(t.seen) > 1 && monotonicNS() >= t.endNS {
		return errLate
	}
	err := seizeThread(tid)
	switch {
	case err == nil:
		t.add(tid)
		return nil
	case errors.Is(err, unix.ESRCH):
		return nil // the thread has ended
	}
	refusal := t.refused(tid, err)
	if errors.Is(refusal, ErrPermission) && seizeThread(tid) == nil {
		// The thread was still traced by ddtop's previous tracer thread, which has ended now. In the meantime, this
		// tracer has seized the thread.
		t.add(tid)
		return nil
	}
	return refusal
}

// refused explains why a thread could not be seized. It returns nil if the thread has ended, because then it need not
// be stopped.
func (t *tracer) refused(tid int32, err error) error {
	p := t.z.p
	text, readErr := p.readProc("task/" + strconv.Itoa(int(tid)) + "/status")
	if isGone(readErr) {
		return nil // the thread has ended
	}
	if readErr != nil {
		return p.refused(fmt.Sprintf("stopping its thread %d (PTRACE_SEIZE)", tid), errors.Join(err, readErr))
	}
	status := parseStatus(text)
	if status.State == 'Z' || status.State == 'X' {
		return nil // a main thread that has ended is listed until all others have ended
	}
	if held := t.z.heldBy(tid, status.TracerPID, err); held != nil {
		return held
	}
	doing := fmt.Sprintf("stopping its thread %d (PTRACE_SEIZE)", tid)
	if errors.Is(err, unix.ENOSYS) {
		return &TargetError{PID: p.pid, Kind: ErrPermission, Cause: "ptrace(2) is not available (a sandbox or a seccomp filter)",
			Help: "Go on without --pause.", Err: fmt.Errorf("%s: %w", doing, err)}
	}
	return p.refused(doing, err)
}

// heldBy returns an error that names the tracer of a thread. It returns nil if tracer is zero, and errStillHeld if the
// tracer is a thread of ddtop that is about to end. err is the kernel's answer to an attempt to seize the thread, or
// nil.
func (z *Pauser) heldBy(tid int32, tracer int, err error) error {
	if tracer == 0 {
		return nil
	}
	// tracer is the ID of a thread. Find its process.
	name, of := "", tracer
	if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tracer)); err == nil {
		status := parseStatus(text)
		name, of = status.Name, cmp.Or(status.TGID, of)
	}
	if of == os.Getpid() || tracer == z.before || name == "" && !z.tracedBy(tid, tracer) {
		return errStillHeld
	}
	return &TargetError{PID: z.p.pid, Kind: ErrTraced, Cause: fmt.Sprintf("process %d (%s); a process has one tracer at a time", of, name), Programs: []string{name},
		Help: fmt.Sprintf("Go on without --pause, or end that tracer: `kill %d`.", of), Err: err}
}

// tracedBy reports whether the thread tid still has the tracer with this number. heldBy calls tracedBy if the tracer's
// name cannot be read. In this case the tracer may be an earlier thread of ddtop that has just ended.
func (z *Pauser) tracedBy(tid int32, tracer int) bool {
	text, err := z.p.readProc("task/" + strconv.Itoa(int(tid)) + "/status")
	return err == nil && parseStatus(text).TracerPID == tracer
}

// traced returns ErrTraced if another process traces a thread of the target. It stops nothing.
func (z *Pauser) traced() error {
	tids, err := z.p.TIDs(nil)
	if err != nil {
		return err
	}
	for _, tid := range tids {
		text, err := z.p.readProc("task/" + strconv.Itoa(int(tid)) + "/status")
		if err != nil {
			continue // the thread has ended; for any other error, the trial pause reports the reason
		}
		if held := z.heldBy(tid, parseStatus(text).TracerPID, nil); held != nil && !errors.Is(held, errStillHeld) {
			return held
		}
	}
	return nil
}

// await waits until the threads in list, from the index first on, have stopped or ended. It returns false if the
// pause's limit is reached sooner.
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

// look finds out whether a thread has stopped or ended, and records this. It returns false if neither has happened.
func (t *tracer) look(x *tracee) bool {
	// The kernel reports the end of a traced thread to the tracer first, and to the parent only after the tracer has
	// collected the report. If the target is ddtop's own child, the code that started it must get this report. So do
	// not collect the report about its main thread here.
	options := unix.WSTOPPED | unix.WEXITED
	if t.ownChild && int(x.tid) == t.z.p.pid {
		options = unix.WSTOPPED
	}
	code, status, err := waitID(x.tid, options)
	switch {
	case err != nil:
		// ddtop traces no thread with this tid now: the thread has ended, or it has called exec and now has another
		// tid.
		x.state = traceEnded
		t.unclean = true
		return true
	case code == 0:
		return false
	case code == cldTrapped || code == cldStopped:
		x.state = traceStopped
		if status>>8 == 0 {
			x.signal = uintptr(status) // the thread stopped when this signal was about to be delivered
		}
		return true
	}
	x.state = traceEnded
	return true
}

// release lets all threads continue. If a signal was about to be delivered to a thread when it stopped, the thread gets
// this signal now.
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
				t.unclean = true // the thread was killed while it was stopped
			}
		case traceSeized:
			t.unclean = true // the thread has not stopped
		}
	}
	if len(t.list) > 0 {
		t.result.NS = monotonicNS() - t.startNS
	}
	t.list = t.list[:0]
}
