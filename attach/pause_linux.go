package attach

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Pauser stops all threads of a process for a moment, with ptrace's SEIZE and INTERRUPT (ptrace(2)). They send no
// signal, and leave no trace in the program. Only one goroutine may use a Pauser.
//
// A stop has one effect on the program. If a thread sleeps in a system call, the kernel interrupts the call and
// restarts it. Calls that signal(7) lists as never restarted fail with EINTR, as they do when a shell stops and
// continues a program. They are epoll_wait, sigtimedwait, semop, reads of an inotify descriptor, and sockets with a
// timeout. Ruby itself handles EINTR everywhere.
//
// All ptrace calls come from a separate OS thread of ddtop. When this OS thread ends, the kernel releases all threads
// that it has seized. This helps if ddtop is killed. It also helps if a thread of the target cannot be released in the
// regular way. Such a thread has not stopped (in vfork, in uninterruptible sleep), or is about to die.
type Pauser struct {
	p     *Process
	limit time.Duration
	// onThread is called at the start of each OS thread of ddtop that traces the target. The caller can raise the
	// thread's priority there.
	onThread func()
	// dir is /proc/PID/task, kept open.
	dir *os.File
	// tracer is the OS thread of ddtop that traces. It is nil if none runs. before is the tid of the previous tracer,
	// which may still be about to end. lagging is true if the tracer has not answered the last order yet.
	tracer  *tracer
	before  int
	lagging bool
}

// NewPauser prepares for pauses of at most limit. It tries one pause, which stops the process for a moment. Each OS
// thread of ddtop that traces the process first calls onThread, which may be nil. The error is a *TargetError that
// wraps ErrTraced, ErrPermission or ErrGone.
//
// If the process is a child of ddtop, the code that started it (os/exec) must call Wait only after the child has ended.
// A pidfd shows when the child has ended. An earlier Wait would mistake the stops for the end of the child.
func (p *Process) NewPauser(limit time.Duration, onThread func()) (*Pauser, error) {
	dir, err := p.openProc("task")
	if err != nil {
		return nil, p.lost(err)
	}
	z := &Pauser{p: p, limit: limit, onThread: onThread, dir: dir}
	if err := z.try(); err != nil {
		z.Close()
		return nil, err
	}
	return z, nil
}

// Limit sets how long each later pause may last at most.
func (z *Pauser) Limit(limit time.Duration) { z.limit = limit }

// try makes a trial pause. Before it stops anything, it checks that no thread of the target has another tracer. If the
// trial runs out of time, try repeats this check. A thread that the trial did not reach may have got a tracer in the
// meantime.
func (z *Pauser) try() error {
	if err := z.traced(); err != nil {
		return err
	}
	pause, err := z.Pause(func() {})
	if err != nil || !pause.Cut {
		return err
	}
	return z.traced()
}

// Pause stops all threads and calls read. It releases the threads when read returns, or earlier when the limit is
// reached. If not all threads can be stopped within the limit, Pause releases them, sets Pause.Cut, and calls read
// anyway. If there is an error, read is not called and no thread is left stopped. The errors are the same as
// NewPauser's.
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
	t.done <- struct{}{} // done has a buffer, so this never blocks, even if the tracer has ended already
	result := <-t.released
	if t.unclean {
		z.end()
	}
	return result, nil
}

// slowSeize is how long awaitStopped waits for the tracer's answer before it calls reap, which collects threads that
// have ended. Most answers arrive sooner.
const slowSeize = time.Millisecond

// awaitStopped waits for the tracer's answer, at most for twice the limit. If the parameter late is true, an earlier
// call has waited already, and this call does not wait. lagging is true if there is no answer yet.
//
// While it waits, awaitStopped collects ended threads of the process (reap). Otherwise ddtop and the process could wait
// for each other forever. The tracer waits in PTRACE_SEIZE while a thread of the process is in execve. The thread in
// execve waits until all other threads of the process have died (de_thread in fs/exec.c). The kernel reports the death
// of a seized thread to ddtop first, and the thread is gone only after ddtop has collected this report. Any thread of
// ddtop may collect it, so awaitStopped does it in place of the tracer.
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

// reapUntilStopped collects ended threads until the tracer has stopped all others. It runs in the background after
// awaitStopped has given up. Without it, the tracer could wait forever for a thread in execve.
func (t *tracer) reapUntilStopped() {
	for t.stopping.Load() {
		t.reap()
		time.Sleep(slowSeize)
	}
}

// reap collects the seized threads that have ended (waitid). Any thread of ddtop may call it.
func (t *tracer) reap() {
	t.seizedMu.Lock()
	defer t.seizedMu.Unlock()
	left := t.seized[:0]
	for _, tid := range t.seized {
		if t.ownChild && int(tid) == t.z.p.pid {
			continue // the code that started the process waits for the report of the process's end
		}
		// waitid also reports that a thread has stopped, but it reports each stop only once (wait_task_stopped,
		// kernel/exit.c). The tracer still needs this report. So the flag WNOWAIT leaves the report in place.
		switch code, _, err := waitID(tid, unix.WEXITED|unix.WNOWAIT); {
		case err != nil: // the tracer has already collected the report that this thread has ended
		case code == cldExited || code == cldKilled || code == cldDumped:
			_, _, _ = waitID(tid, unix.WEXITED) // remove the report, which says only that the thread has ended
		default:
			left = append(left, tid)
		}
	}
	t.seized = left
}

// Thread returns the tid of ddtop's OS thread that traces the target, or 0 if none runs. After a pause that failed, a
// new thread traces, so the tid changes.
func (z *Pauser) Thread() int {
	if z.tracer == nil {
		return 0
	}
	return z.tracer.tid
}

// Close ends the tracing of the process.
func (z *Pauser) Close() {
	z.end()
	z.dir.Close()
}

// end ends the OS thread that traces the target. The kernel then releases all threads that it still holds.
func (z *Pauser) end() {
	if z.tracer != nil {
		z.before = z.tracer.tid
		close(z.tracer.order)
		if z.lagging {
			z.tracer.done <- struct{}{} // tell the tracer that no caller waits for its answer
		}
		z.tracer, z.lagging = nil, false
	}
}

func (z *Pauser) start() *tracer {
	t := &tracer{
		z: z, ownChild: z.p.Parent() == os.Getpid(),
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
