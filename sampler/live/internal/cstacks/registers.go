package cstacks

import (
	"errors"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/native"
	"github.com/ddtop/ddtop/sampler/native/iterator"
)

// maxVisits is the largest number of visits in one round. A visit reads the registers of all threads once. If the
// machine has thousands of threads, a visit takes milliseconds. If a thread has run since the last visit, another visit
// is needed.
const maxVisits = 64

// Registers returns the registers of threads that do not run. If ddtop may load programs into the kernel, it returns
// all registers (package iterator). Otherwise it returns only the stack pointer and the program counter. For these two,
// the right to read the memory is enough. Only one goroutine may use it.
type Registers struct {
	pid   int
	tasks *kernel.Tasks
	// all is the iterator that reads the registers of all threads. The first visit opens it. It is nil before the first
	// visit, and if it cannot be opened or read. In the second case err is the reason, and no later visit tries again.
	all *iterator.Iterator
	err error
	// threads has the threads that the last visit read. A thread is removed when a caller takes its registers. visits
	// counts the visits of this round. A visit reads the registers of all threads.
	threads map[int32]iterator.Thread
	visits  int
	// plain is about the last thread whose registers were read. It is true if the name of the thread's system call is
	// enough to say what the kernel does for the thread. It is false if the call uses files, or if the thread's sleep
	// cannot be interrupted.
	plain bool
}

// NewRegisters returns the Registers of a process. The caller closes tasks.
func NewRegisters(pid int, tasks *kernel.Tasks) *Registers {
	return &Registers{pid: pid, tasks: tasks, threads: make(map[int32]iterator.Thread)}
}

// Close removes the program from the kernel.
func (r *Registers) Close() {
	if r.all != nil {
		_ = r.all.Close() // an error of removing the program changes nothing
		r.all = nil
	}
}

// Round begins a round of threads.
func (r *Registers) Round() {
	r.visits = 0
	clear(r.threads)
}

// visit reads the registers of all threads with the iterator, if there is one. It closes an iterator that fails.
func (r *Registers) visit() {
	if r.err != nil || r.visits >= maxVisits {
		return
	}
	r.visits++
	if r.all == nil {
		if r.all, r.err = iterator.Open(r.pid); r.err != nil {
			return
		}
	}
	if r.err = r.all.Read(r.threads); r.err != nil {
		clear(r.threads)
		r.Close()
	}
}

// Registers implements native.Source.
func (r *Registers) Registers(tid int32) (native.Registers, native.Moment, bool, error) {
	if r.visits == 0 {
		r.visit()
	}
	if regs, at, ok := r.visited(tid); ok {
		return regs, at, true, nil
	}
	x, ok, err := r.tasks.Standing(tid)
	if ok && err == nil {
		r.visit() // the thread has run since the last visit
		if regs, at, ok := r.visited(tid); ok {
			return regs, at, true, nil
		}
	}
	return native.At(x.SP, x.PC), native.Moment{Turns: x.Turns, Call: x.Line}, ok, err
}

// visited returns the registers of a thread from the last visit, the reading of all threads. It then removes them, so
// that they are used only once.
func (r *Registers) visited(tid int32) (native.Registers, native.Moment, bool) {
	x, ok := r.threads[tid]
	delete(r.threads, tid)
	r.plain = ok && !x.Uninterruptible && !r.tasks.OnFiles(x.Call)
	return x.Registers, native.Moment{Turns: x.Turns}, ok
}

// Stays implements native.Source.
func (r *Registers) Stays(tid int32, at native.Moment) (bool, error) {
	if at.Call == "" {
		cpu, err := r.tasks.CPU(tid)
		return err == nil && cpu.Turns == at.Turns, err
	}
	x, ok, err := r.tasks.Standing(tid)
	return ok && err == nil && at == native.Moment{Turns: x.Turns, Call: x.Line}, err
}

// hint returns advice to the user about frames that are missing because a register is not known. It is empty if there
// is no way to see them.
func (r *Registers) hint() string {
	switch {
	case errors.Is(r.err, bpf.ErrRights):
		return " (sudo ddtop shows them)"
	case r.err != nil:
		return " (ddtop doctor says why)"
	}
	return ""
}
