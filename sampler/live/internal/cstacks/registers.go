package cstacks

import (
	"errors"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/native"
	"github.com/ddtop/ddtop/sampler/native/iterator"
)

// maxVisits bounds the visits of all threads in one round. Each takes up to some milliseconds if the kernel has
// thousands of threads. A thread that moves asks for another one.
const maxVisits = 64

// Registers gives the registers of threads that do not run. If ddtop may load programs into the kernel, it gives all of
// them (package iterator). Otherwise it gives what every user gets who may read the memory: stack pointer and program
// counter. It is for one goroutine.
type Registers struct {
	pid   int
	tasks *kernel.Tasks
	// all is opened by the first question. It is nil before, and if err says why there is none.
	all *iterator.Iterator
	err error
	// threads are what the last visit found and what no caller has asked for yet. visits counts the round's.
	threads map[int32]iterator.Thread
	visits  int
	// plain is true if the system call of the last thread says all that the kernel does for it.
	plain bool
}

// NewRegisters gives the registers of a process's threads. tasks stay the caller's.
func NewRegisters(pid int, tasks *kernel.Tasks) *Registers {
	return &Registers{pid: pid, tasks: tasks, threads: make(map[int32]iterator.Thread)}
}

// Close removes what was put into the kernel.
func (r *Registers) Close() {
	if r.all != nil {
		_ = r.all.Close() // nothing depends on how the program left the kernel
		r.all = nil
	}
}

// Round begins a round of threads.
func (r *Registers) Round() {
	r.visits = 0
	clear(r.threads)
}

// visit reads the registers of all threads, unless there is no iterator. An iterator that fails is closed.
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

// Registers is native.Source's.
func (r *Registers) Registers(tid int32) (native.Registers, native.Moment, bool, error) {
	if r.visits == 0 {
		r.visit()
	}
	if regs, at, ok := r.visited(tid); ok {
		return regs, at, true, nil
	}
	x, ok, err := r.tasks.Standing(tid)
	if ok && err == nil {
		r.visit() // it has gone to sleep, or has moved, since the last visit
		if regs, at, ok := r.visited(tid); ok {
			return regs, at, true, nil
		}
	}
	return native.At(x.SP, x.PC), native.Moment{Turns: x.Turns, Call: x.Line}, ok, err
}

// visited takes a thread of the last visit.
func (r *Registers) visited(tid int32) (native.Registers, native.Moment, bool) {
	x, ok := r.threads[tid]
	delete(r.threads, tid)
	r.plain = ok && !x.Uninterruptible && !r.tasks.OnFiles(x.Call)
	return x.Registers, native.Moment{Turns: x.Turns}, ok
}

// Stays is native.Source's.
func (r *Registers) Stays(tid int32, at native.Moment) (bool, error) {
	if at.Call == "" {
		cpu, err := r.tasks.CPU(tid)
		return err == nil && cpu.Turns == at.Turns, err
	}
	x, ok, err := r.tasks.Standing(tid)
	return ok && err == nil && at == native.Moment{Turns: x.Turns, Call: x.Line}, err
}

// hint says who can read the frames that are missing for an unknown register. It is empty if no user can.
func (r *Registers) hint() string {
	switch {
	case errors.Is(r.err, bpf.ErrRights):
		return " (sudo ddtop shows them)"
	case r.err != nil:
		return " (ddtop doctor says why)"
	}
	return ""
}
