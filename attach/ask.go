package attach

import (
	"fmt"
	"time"
)

const (
	// patience is for how long an answer of the kernel's about a process is waited for.
	patience = time.Second
	// patienceSteps is in how many steps that is done: a machine that gives ddtop no CPU makes each of them longer, and what
	// could not ask is not taken for what did not answer.
	patienceSteps = 20
)

// Ask calls fn, which asks the kernel about a process in a way that can block, and waits a second for it: ErrNoAnswer after
// that. doing says what fn does ("reading its memory"). A panic of fn's is an ErrFault.
//
// Whatever looks into a process's memory takes its mmap lock for reading (cmdline, environ, maps, smaps, map_files and mem
// in /proc/PID, process_vm_readv(2); fs/proc/base.c and task_mmu.c, mm/process_vm_access.c, Linux 6.18). One thread of the
// process that waits for a disk within a page fault, and another one that waits to map memory, hold it against all others:
// that is how `ps aux` hangs. Files below /proc/PID/root and behind /proc/PID/exe can be those of a server that is gone.
// stat, status, comm, task, fd and the text of the link exe take no lock that is held for long.
//
// What does not answer keeps its goroutine and that one's thread until it does, or ddtop ends. So a process that has not
// answered is not to be asked again and again, and fn must use nothing that its caller goes on with or closes.
func Ask[T any](pid int, doing string, fn func() (T, error)) (T, error) {
	return ask(pid, patience, doing, fn)
}

// ask is Ask that waits for another length of time.
func ask[T any](pid int, patience time.Duration, doing string, fn func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	OnOwnThread(func() { // not the first one, which would keep signals from the others
		var a answer
		defer func() { done <- a }()
		defer Recovered(pid, &a.err)
		a.value, a.err = fn()
	})
	tick := time.NewTicker(patience / patienceSteps)
	defer tick.Stop()
	for range patienceSteps {
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
