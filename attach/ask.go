package attach

import (
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// patience is how long Ask waits for the kernel's answer about a process.
	patience = time.Second
	// patienceSteps is the number of short steps into which Ask divides its wait. On a busy machine, ddtop itself may
	// get no CPU for a while. Each step then takes longer, and so does the whole wait. A single timer would expire in
	// that time, and Ask would wrongly report that the process does not answer.
	patienceSteps = 20
	// starvedSteps is the number of further steps that Ask waits while its function fn computes or waits for a CPU. In
	// this case the process is not the cause of the delay, because fn is not blocked in the kernel. With thirty threads
	// for each CPU, a computation of 50 ms can take seconds.
	starvedSteps = 20 * patienceSteps
)

// Ask calls fn and waits about a second for its result. fn asks the kernel about a process, which can block. Ask waits
// longer, up to 20 seconds, if fn is not blocked in the kernel but computes or lacks a CPU. If fn has not returned by
// then, Ask returns ErrNoAnswer. The parameter doing describes for the error what fn does ("reading its memory"). A
// panic in fn becomes an ErrFault.
//
// A question about a process can block because of a lock: every read of a process's memory takes the process's mmap
// lock for reading. This holds for cmdline, environ, maps, smaps, map_files and mem in /proc/PID, and for
// process_vm_readv(2) (fs/proc/base.c, task_mmu.c and mm/process_vm_access.c, Linux 6.18). A thread of the process can
// hold this lock while it waits for a disk in a page fault. If another thread also waits to map memory, no new reader
// gets the lock. This is why `ps aux` can hang. A question can also block because files below /proc/PID/root and behind
// /proc/PID/exe are on a file server that is gone. Reading stat, status, comm, task, fd and the text of the link exe
// takes no lock that is held for long.
//
// If fn does not return, its goroutine and its OS thread remain until it does, or until ddtop ends. So do not ask a
// process again and again if it has not answered. fn can still run after Ask has returned. So fn must not use anything
// that the caller of Ask closes or uses again.
func Ask[T any](pid int, doing string, fn func() (T, error)) (T, error) {
	return ask(pid, patience, doing, fn)
}

// ask is like Ask, but waits for the given patience instead of a second.
func ask[T any](pid int, patience time.Duration, doing string, fn func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	var tid atomic.Int32
	// not on ddtop's first thread, because signals to ddtop have to wait while that thread is blocked
	OnOwnThread(func() {
		tid.Store(ownTID())
		var a answer
		defer func() { done <- a }()
		defer Recovered(pid, &a.err)
		a.value, a.err = fn()
	})
	tick := time.NewTicker(patience / patienceSteps)
	defer tick.Stop()
	for step := range patienceSteps + starvedSteps {
		if step >= patienceSteps && !lacksCPU(tid.Load()) {
			break
		}
		select {
		case a := <-done:
			return a.value, a.err
		case <-tick.C:
		}
	}
	select {
	case a := <-done:
		return a.value, a.err
	default:
	}
	var none T
	return none, noAnswer(pid, fmt.Sprintf("%s takes longer than %v: it seems to wait for a disk or a server, "+
		"and holds the lock of its memory meanwhile", doing, patience))
}

func noAnswer(pid int, cause string) error {
	return &TargetError{PID: pid, Kind: ErrNoAnswer, Cause: cause,
		Help: fmt.Sprintf("Where its threads wait, `sudo grep -H . /proc/%d/task/*/stack` shows.", pid)}
}
