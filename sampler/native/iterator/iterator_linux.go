package iterator

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/native"
)

// readBytes is the size of a read, in bytes. It is larger than the kernel's own buffer of 32 KB
// (kernel/bpf/bpf_iter.c).
const readBytes = 64 << 10

// Iterator reads the registers of a process's threads. Only one goroutine may use it at a time.
type Iterator struct {
	programs bpf.Programs
	link     int
	buf      []byte
}

// Check returns an error if registers cannot be read on this machine with ddtop's rights: bpf.ErrKernel or
// bpf.ErrRights.
func Check() error {
	m, err := bpf.ThisMachine()
	if err != nil {
		return err
	}
	return m.CheckRegisters()
}

// Try loads the program and removes it again, to show whether the kernel, a container or a security module forbids it.
// The errors are the same as Open's.
func Try() error {
	x, err := Open(os.Getpid())
	if err != nil {
		return err
	}
	return x.Close()
}

// Open loads the program for a process. The error is bpf.ErrKernel or bpf.ErrRights, or says that the machine lacks
// memory or descriptors.
func Open(pid int) (_ *Iterator, err error) {
	if err := Check(); err != nil {
		return nil, err
	}
	x := &Iterator{buf: make([]byte, readBytes)}
	types, err := x.programs.Types()
	if err != nil {
		return nil, err
	}
	places, err := placesOfKernel(types)
	if err != nil {
		return nil, err
	}
	const name = "ddtop_registers"
	loaded, err := x.programs.Load(map[string]*ebpf.ProgramSpec{name: {Name: name, Type: ebpf.Tracing,
		AttachType: ebpf.AttachTraceIter, AttachTo: "task", License: bpf.License, Instructions: places.visit(int32(pid))}})
	if err != nil {
		return nil, err
	}
	if x.link, err = attach(loaded[name].FD(), pid); err != nil {
		return nil, errors.Join(bpf.Explain("attaching the program", err), x.programs.Close())
	}
	x.programs.Closes(func() error { return unix.Close(x.link) })
	return x, nil
}

// attach makes an iterator over the threads of a process. Before Linux 6.1 the kernel visits the threads of all
// processes, and the program skips the others.
func attach(program, pid int) (fd int, err error) {
	// These are the kernel's union bpf_attr for BPF_LINK_CREATE, and its bpf_iter_link_info.task (linux/bpf.h).
	type taskInfo struct{ _, pid, _ uint32 } // fields tid, pid, pid_fd
	type linkCreate struct {
		program, target, kind, flags uint32
		info                         *taskInfo
		infoSize                     uint32
		_                            uint32
	}
	attr := linkCreate{program: uint32(program), kind: uint32(ebpf.AttachTraceIter), info: &taskInfo{pid: uint32(pid)},
		infoSize: uint32(unsafe.Sizeof(taskInfo{}))}
	fd, err = bpfCall(unix.BPF_LINK_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if errors.Is(err, unix.E2BIG) || errors.Is(err, unix.EINVAL) {
		attr.info, attr.infoSize = nil, 0
		fd, err = bpfCall(unix.BPF_LINK_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	}
	return fd, err
}

// bpfCall makes the system call bpf with a command that returns a descriptor. On exec the kernel closes this
// descriptor.
func bpfCall(command int, attr unsafe.Pointer, size uintptr) (fd int, err error) {
	n, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(command), uintptr(attr), size)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// Read reads the registers of all sleeping threads into the map to, whose key is the TID. It takes 1 to 2 µs for each
// thread. If a thread's Turns are the same in two reads, the thread has not run in between.
func (x *Iterator) Read(to map[int32]Thread) error {
	attr := struct{ link, flags uint32 }{link: uint32(x.link)}
	fd, err := bpfCall(unix.BPF_ITER_CREATE, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		return fmt.Errorf("visiting the threads: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // errors do not matter after reading
	clear(to)
	for {
		n, err := unix.Read(fd, x.buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue // the kernel returns EAGAIN after it has skipped a million tasks (bpf_iter.c)
		case err != nil:
			return fmt.Errorf("visiting the threads: %w", err)
		case n == 0:
			return nil
		}
		if err := decode(x.buf[:n], to); err != nil {
			return fmt.Errorf("visiting the threads: %w", err)
		}
	}
}

// Close removes the program from the kernel.
func (x *Iterator) Close() error { return x.programs.Close() }

// places has the offsets of the fields that the program reads, in the structs of this kernel, in bytes.
type places struct {
	tgid, tid, turns, onCPU, state int16
	call                           int16
	registers                      [native.NumRegisters]int16
}

func placesOfKernel(spec *btf.Spec) (p places, err error) {
	for _, m := range []struct {
		to   *int16
		path []string
		size int
	}{
		{&p.tgid, []string{"tgid"}, 4}, {&p.tid, []string{"pid"}, 4}, {&p.turns, []string{"sched_info", "pcount"}, 8},
		{&p.onCPU, []string{"on_cpu"}, 4}, {&p.state, []string{"__state"}, 4},
	} {
		if *m.to, err = bpf.MemberAt(spec, "task_struct", m.path, m.size); err != nil {
			return p, fmt.Errorf("%w: %w", bpf.ErrKernel, err)
		}
	}
	if p.call, err = bpf.MemberAt(spec, "pt_regs", []string{"orig_ax"}, 8); err != nil {
		return p, fmt.Errorf("%w: %w", bpf.ErrKernel, err)
	}
	for i, name := range native.KernelNames {
		if p.registers[i], err = bpf.MemberAt(spec, "pt_regs", []string{name}, 8); err != nil {
			return p, fmt.Errorf("%w: %w", bpf.ErrKernel, err)
		}
	}
	return p, nil
}

// These constants are offsets in struct bpf_iter__task and struct bpf_iter_meta (linux/bpf.h). They are part of the
// kernel's interface.
const (
	contextMeta, contextTask = 0, 8
	metaFile                 = 0
)

// visit returns the instructions that run for each thread. They write a record if the thread sleeps and is not on a
// CPU. The record has the registers that the kernel saved when the thread entered the kernel. It also has the number of
// times that the thread got a CPU. This number is read before the registers. If it is greater in the thread's next
// record, the thread may have run while this record was made.
func (p *places) visit(pid int32) asm.Instructions {
	const record = -recordSize
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, contextTask, asm.DWord),
		asm.JEq.Imm(asm.R7, 0, "end"),
		asm.LoadMem(asm.R1, asm.R7, p.tgid, asm.Word),
		asm.JNE.Imm(asm.R1, pid, "end"),
		asm.LoadMem(asm.R1, asm.R7, p.turns, asm.DWord),
		asm.StoreMem(asm.RFP, record+recordTurns, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, p.onCPU, asm.Word),
		asm.JNE.Imm(asm.R1, 0, "end"),
		asm.LoadMem(asm.R1, asm.R7, p.state, asm.Word),
		asm.JEq.Imm(asm.R1, 0, "end"), // state 0: the thread is runnable
		asm.StoreMem(asm.RFP, record+recordState, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, p.tid, asm.Word),
		asm.StoreMem(asm.RFP, record+recordTID, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R7),
		asm.FnTaskPtRegs.Call(),
		asm.LoadMem(asm.R1, asm.R0, p.call, asm.DWord),
		asm.StoreMem(asm.RFP, record+recordCall, asm.R1, asm.DWord),
	}
	for i, from := range p.registers {
		ins = append(ins, asm.LoadMem(asm.R1, asm.R0, from, asm.DWord),
			asm.StoreMem(asm.RFP, record+recordRegisters+int16(8*i), asm.R1, asm.DWord))
	}
	return append(ins,
		asm.LoadMem(asm.R1, asm.R6, contextMeta, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, metaFile, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, record),
		asm.Mov.Imm(asm.R3, recordSize),
		asm.FnSeqWrite.Call(), // if the buffer is full, the kernel calls the program again
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
}
