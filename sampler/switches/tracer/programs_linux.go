package tracer

import (
	"fmt"
	"runtime"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/switches"
)

// These are offsets in the data that the programs in the kernel keep for each thread (task storage).
const (
	// storedIn is when the thread got its CPU. storedWoken is when it became runnable, and storedWaker is the thread
	// that woke it up. storedWakerOwner is the owner of the GVL at that time.
	storedIn = 8 * iota
	storedWoken
	storedWaker
	storedWakerOwner
	// storedGave is when the thread woke up the next holder of the GVL, if that was after storedIn. Otherwise it is 0.
	storedGave
	// storedThread is the thread's rb_thread_t. storedWaits is not 0 if the thread was in the queue for the GVL when
	// it last lost its CPU.
	storedThread
	storedWaits
	// storedWork is the address of the environment (a request's Hash) that was copied last. It becomes 0 when the
	// thread has left the frame with that environment.
	storedWork
	storedSize
)

// These are offsets on the stack of a program in the kernel. The record is at onStack. Below it are single words, such
// as the result of a read.
const (
	onStack   = -recordSize
	keyAt     = onStack - 8
	contextAt = keyAt - 24 // the first three words of an execution context
	frameAt   = contextAt - 16
	wordAt    = frameAt - 8
	stateAt   = wordAt - 8
	seenAt    = stateAt - 8
	nodeAt    = seenAt - 8
	savedAt   = nodeAt - 8
	spAt      = savedAt - 8
	framesAt  = spAt - 8
	valuesAt  = framesAt - 8
)

// These are the numbers of the system calls poll and ppoll on x86_64 (arch/x86/entry/syscalls/syscall_64.tbl).
const callPoll, callPpoll = 7, 271

// deadBit is a bit in the state of a task that is ending (TASK_DEAD, include/linux/sched.h).
const deadBit = 0x80

// waitStacks and clockStackNS limit how many stacks are copied. For each process, at most waitStacks stacks of threads
// that wait for the GVL are copied in each period of spanNS. At ticks of the clock, the programs copy the stack of the
// thread with the GVL, but not more often than once in clockStackNS. Both times are in ns. The limits are needed
// because a copy takes about 3 µs, and ddtop must also find the names for new stacks.
const waitStacks, spanNS, clockStackNS = 2, 10_000_000, 15_000_000

// These are offsets of the first words of rb_execution_context_t, and of a control frame (vm_core.h, Ruby 2.6 to 4.0).
const (
	contextCFP, contextSize = 16, 24
	framePC, frameSP        = 0, 8
	frameISeq, frameEP      = 16, 32
)

// kernelPlaces are this kernel's offsets of the fields that the programs read, in bytes from the start of their
// struct.
type kernelPlaces struct {
	tgid, pid, threadPointer, runDelay, state int16
	// switchState is true if the tracepoint of thread switches passes the state of the thread that loses the CPU as an
	// argument (Linux 5.18).
	switchState   bool
	syscall, args [3]int16
}

// placesOfKernel reads the offsets of fields in kernel structs from the kernel's description of its own types (BTF).
func placesOfKernel() (k kernelPlaces, err error) {
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return k, fmt.Errorf("%w: reading what it says of itself: %w", bpf.ErrKernel, err)
	}
	threadPointer, registers := []string{"thread", "fsbase"}, []string{"orig_ax", "di", "si", "dx"}
	if runtime.GOARCH != "amd64" {
		return k, fmt.Errorf("%w: the programs are for x86_64 as yet, and not for %s", bpf.ErrKernel, runtime.GOARCH)
	}
	for _, f := range []struct {
		to     *int16
		in     string
		path   []string
		length int
	}{
		{&k.tgid, "task_struct", []string{"tgid"}, 4}, {&k.pid, "task_struct", []string{"pid"}, 4},
		{&k.threadPointer, "task_struct", threadPointer, 8}, {&k.runDelay, "task_struct", []string{"sched_info", "run_delay"}, 8},
		{&k.state, "task_struct", []string{"__state"}, 4},
		{&k.syscall[0], "pt_regs", registers[:1], 8}, {&k.args[0], "pt_regs", registers[1:2], 8},
		{&k.args[1], "pt_regs", registers[2:3], 8}, {&k.args[2], "pt_regs", registers[3:], 8},
	} {
		if *f.to, err = bpf.MemberAt(spec, f.in, f.path, f.length); err != nil {
			return k, fmt.Errorf("%w: %w", bpf.ErrKernel, err)
		}
	}
	var t *btf.Typedef
	if err := spec.TypeByName("btf_trace_sched_switch", &t); err != nil {
		return k, fmt.Errorf("%w: the tracepoint sched_switch: %w", bpf.ErrKernel, err)
	}
	if p, ok := t.Type.(*btf.Pointer); ok {
		if f, ok := p.Target.(*btf.FuncProto); ok {
			k.switchState = len(f.Params) >= 5 // the first parameter is not an argument, but the tracepoint itself
		}
	}
	return k, nil
}

type builder struct {
	kernel kernelPlaces
	// These are descriptors of eBPF maps. targets has the followed processes, and threads the data kept for each
	// thread. ring has the records, and stacks the copied stacks. places has the WorkPlaces: where a process's threads
	// have the environments of requests. works has the copied environments.
	targets, threads, ring, stacks, places, works int
	// bell and slots are descriptors of two more maps: bell of the map with the flags for bpf_ringbuf_output, and slots
	// of the map of slots.
	bell, slots int
}

// slots is the number of slots, a power of 2. The slots let a program find out quickly that a process is not followed,
// without a search for a target. A process belongs to the slot with the number PID modulo slots. The byte of a slot is
// 1 if ddtop follows a process of this slot. For most other processes it is 0.
const slots = 1 << 14

// find emits instructions that load the data about a followed process (its target) into R8. tgid is the register with
// the process's PID. If ddtop does not follow the process, the instructions jump to a label. The parameter or has the
// name of this label.
func (b *builder) find(tgid asm.Register, or string) asm.Instructions {
	return asm.Instructions{
		asm.StoreMem(asm.RFP, keyAt, tgid, asm.Word),
		asm.Mov.Reg(asm.R1, tgid), asm.And.Imm(asm.R1, slots-1),
		asm.LoadMapValue(asm.R3, b.slots, 0), asm.Add.Reg(asm.R3, asm.R1),
		asm.LoadMem(asm.R3, asm.R3, 0, asm.Byte), asm.JEq.Imm(asm.R3, 0, or),
		asm.LoadMapPtr(asm.R1, b.targets),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, or),
		asm.Mov.Reg(asm.R8, asm.R0),
	}
}

// stored emits instructions that load the data kept for a thread into R9. If there is no data yet and create is 1, they
// create it. If there is still none, they jump to a label, whose name is in the parameter or.
func (b *builder) stored(task asm.Register, create int32, or string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, b.threads),
		asm.Mov.Reg(asm.R2, task), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, create),
		asm.FnTaskStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, or),
		asm.Mov.Reg(asm.R9, asm.R0),
	}
}

// switched returns the program that runs at each thread switch. First it stores the time for the thread that gets the
// CPU. It cannot read the memory of this thread's process yet. Then it makes the record of the thread that loses the
// CPU.
func (b *builder) switched() asm.Instructions {
	ins := asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, 8, asm.DWord),
		asm.LoadMem(asm.R7, asm.R1, 16, asm.DWord),
	}
	if b.kernel.switchState {
		ins = append(ins, asm.LoadMem(asm.R2, asm.R1, 24, asm.DWord), asm.LSh.Imm(asm.R2, 32), asm.RSh.Imm(asm.R2, 32))
	} else {
		ins = append(ins, asm.LoadMem(asm.R2, asm.R6, b.kernel.state, asm.Word))
	}
	ins = append(ins, asm.StoreMem(asm.RFP, stateAt, asm.R2, asm.DWord), asm.LoadMem(asm.R2, asm.R7, b.kernel.tgid, asm.Word))
	ins = append(ins, b.find(asm.R2, "out")...)
	ins = append(ins, b.stored(asm.R7, 1, "out")...)
	ins = append(ins,
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.R9, storedIn, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(asm.R9, storedGave, asm.R1, asm.DWord),
		asm.LoadMem(asm.R2, asm.R6, b.kernel.tgid, asm.Word).WithSymbol("out"))
	ins = append(ins, b.find(asm.R2, "end")...)
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, stateAt, asm.DWord), asm.And.Imm(asm.R1, deadBit), asm.JNE.Imm(asm.R1, 0, "end"))
	ins = append(ins, b.stored(asm.R6, 1, "not stored")...)
	return append(ins, b.record(switches.Out)...)
}

// ticked returns the program that runs at each tick of a CPU's clock.
func (b *builder) ticked() asm.Instructions {
	ins := asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.RSh.Imm(asm.R0, 32),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.RFP, stateAt, asm.R1, asm.DWord),
	}
	ins = append(ins, b.find(asm.R2, "end")...)
	ins = append(ins, asm.FnGetCurrentTaskBtf.Call(), asm.Mov.Reg(asm.R6, asm.R0))
	ins = append(ins, b.stored(asm.R6, 1, "not stored")...)
	return append(ins, b.record(switches.Clock)...)
}

// ended returns the program that runs when a native thread ends.
func (b *builder) ended() asm.Instructions {
	ins := asm.Instructions{
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
		asm.Mov.Reg(asm.R2, asm.R0),
	}
	ins = append(ins, b.find(asm.R2, "end")...)
	ins = append(ins, noRecord()...)
	ins = append(ins, asm.FnGetCurrentTaskBtf.Call(), asm.Mov.Reg(asm.R6, asm.R0))
	ins = append(ins, b.stored(asm.R6, 0, "nothing stored")...)
	for _, w := range []struct{ to, from int16 }{
		{recordIn, storedIn}, {recordWoken, storedWoken}, {recordWakerOwner, storedWakerOwner}, {recordGave, storedGave},
	} {
		ins = append(ins, asm.LoadMem(asm.R1, asm.R9, w.from, asm.DWord), asm.StoreMem(asm.RFP, onStack+w.to, asm.R1, asm.DWord))
	}
	ins = append(ins, asm.FnKtimeGetNs.Call().WithSymbol("nothing stored"), asm.StoreMem(asm.RFP, onStack+recordNS, asm.R0, asm.DWord),
		asm.StoreMem(asm.RFP, onStack+recordTID, asm.R7, asm.Word), asm.StoreImm(asm.RFP, onStack+recordKind, int64(switches.Exited), asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, keyAt, asm.Word), asm.StoreMem(asm.RFP, onStack+recordTGID, asm.R1, asm.Word))
	return append(ins, b.emit()...)
}

// noRecord emits instructions that set all words of the record to 0.
func noRecord() asm.Instructions {
	ins := asm.Instructions{asm.Mov.Imm(asm.R1, 0)}
	for place := int16(onStack); place < 0; place += 8 {
		ins = append(ins, asm.StoreMem(asm.RFP, place, asm.R1, asm.DWord))
	}
	return ins
}

// read emits instructions that copy a word from the address in R3 to the program's own stack. If the copy fails, they
// count the failure in the record.
func read(to int16, size int32, n int) asm.Instructions {
	ok := fmt.Sprintf("read %d", n)
	return append(bpf.ReadTo(to, size),
		asm.JEq.Imm(asm.R0, 0, ok),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordFailed, asm.Word), asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.RFP, onStack+recordFailed, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(ok))
}

// record emits instructions that make a record of the thread in R6. R8 has the data about its process (the target), and
// R9 the data kept for the thread.
func (b *builder) record(kind switches.Kind) asm.Instructions {
	k := &b.kernel
	ins := append(noRecord(),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, onStack+recordNS, asm.R0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R6, k.pid, asm.Word), asm.StoreMem(asm.RFP, onStack+recordTID, asm.R1, asm.Word),
		asm.StoreImm(asm.RFP, onStack+recordKind, int64(kind), asm.Word),
		asm.LoadMem(asm.R1, asm.R6, k.tgid, asm.Word), asm.StoreMem(asm.RFP, onStack+recordTGID, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.R6, k.runDelay, asm.DWord), asm.StoreMem(asm.RFP, onStack+recordDelay, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, stateAt, asm.DWord), asm.StoreMem(asm.RFP, onStack+recordState, asm.R1, asm.DWord),
	)
	for _, w := range []struct{ to, from int16 }{
		{recordIn, storedIn}, {recordWoken, storedWoken}, {recordWaker, storedWaker}, {recordWakerOwner, storedWakerOwner}, {recordGave, storedGave},
	} {
		ins = append(ins, asm.LoadMem(asm.R1, asm.R9, w.from, asm.DWord), asm.StoreMem(asm.RFP, onStack+w.to, asm.R1, asm.DWord))
	}
	if kind == switches.Out {
		ins = append(ins, asm.Mov.Imm(asm.R1, 0))
		for _, from := range []int16{storedIn, storedWoken, storedWaker, storedWakerOwner, storedGave} {
			ins = append(ins, asm.StoreMem(asm.R9, from, asm.R1, asm.DWord))
		}
	}
	n := 0
	at := func(to int16, size int32) { n++; ins = append(ins, read(to, size, n)...) }
	// plus emits instructions that read memory at an offset from the address in R7. This offset is stored in the
	// target, at the place that the parameter field gives.
	plus := func(field, to int16, size int32) {
		ins = append(ins, asm.Mov.Reg(asm.R3, asm.R7), asm.LoadMem(asm.R1, asm.R8, field, asm.DWord), asm.Add.Reg(asm.R3, asm.R1))
		at(to, size)
	}
	ins = append(ins, asm.LoadMem(asm.R7, asm.R6, k.threadPointer, asm.DWord))
	plus(targetContext, wordAt, 8)
	ins = append(ins,
		asm.LoadMem(asm.R7, asm.RFP, wordAt, asm.DWord),
		asm.JEq.Imm(asm.R7, 0, "no thread"), // not one of Ruby's threads
		asm.LoadMem(asm.R1, asm.R8, targetThreadOfEC, asm.DWord),
		asm.JSLT.Imm(asm.R1, 0, "thread itself"))
	plus(targetThreadOfEC, onStack+recordThread, 8)
	ins = append(ins,
		asm.LoadMem(asm.R7, asm.RFP, onStack+recordThread, asm.DWord), asm.Ja.Label("have both"),
		asm.StoreMem(asm.RFP, onStack+recordThread, asm.R7, asm.DWord).WithSymbol("thread itself"))
	plus(targetContextOfThread, wordAt, 8)
	ins = append(ins, asm.JEq.Imm(asm.R7, 0, "no thread").WithSymbol("have both"), asm.StoreMem(asm.R9, storedThread, asm.R7, asm.DWord))
	plus(targetReady, onStack+recordReady, 8)
	plus(targetRegion, onStack+recordRegion, 8)
	plus(targetUnblock, onStack+recordUnblock, 8)
	plus(targetStatus, onStack+recordStatus, 8)
	plus(targetMutex, onStack+recordMutex, 8)
	ins = append(ins,
		asm.LoadMem(asm.R3, asm.R8, targetCollector, asm.DWord), asm.JEq.Imm(asm.R3, 0, "no collector"))
	at(onStack+recordCollector, 8)
	ins = append(ins, asm.LoadMem(asm.R1, asm.R8, targetBefore33, asm.DWord).WithSymbol("no collector"), asm.JNE.Imm(asm.R1, 0, "no lists"))
	plus(targetRunning, onStack+recordRunning, 8)
	ins = append(ins, asm.LoadMem(asm.R3, asm.R8, targetTail, asm.DWord))
	at(onStack+recordTail, 8)
	// If a thread puts another thread into the queue for the GVL, no record is made at that time. So each record lists
	// the threads that are new in the queue. To find them, the program reads the queue backward. It begins at the
	// present end, and stops at the thread that was the end at the previous record.
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.R8, targetSeenTail, asm.DWord), asm.StoreMem(asm.RFP, seenAt, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordTail, asm.DWord), asm.StoreMem(asm.R8, targetSeenTail, asm.R1, asm.DWord))
	for i := range int16(maxJoined) {
		ins = append(ins,
			asm.JEq.Imm(asm.R1, 0, "no lists"),
			asm.LoadMem(asm.R2, asm.RFP, seenAt, asm.DWord), asm.JEq.Reg(asm.R1, asm.R2, "no lists"),
			asm.LoadMem(asm.R2, asm.R8, targetTail, asm.DWord), asm.Add.Imm(asm.R2, -8), asm.JEq.Reg(asm.R1, asm.R2, "no lists"),
			asm.StoreMem(asm.RFP, onStack+recordQueue+8*i, asm.R1, asm.DWord),
			asm.Mov.Reg(asm.R3, asm.R1), asm.Add.Imm(asm.R3, 8))
		// a failure of this read is not counted, because the node may have just left the queue
		ins = append(ins, bpf.ReadTo(nodeAt, 8)...)
		ins = append(ins, asm.LoadMem(asm.R1, asm.RFP, nodeAt, asm.DWord))
	}
	ins = append(ins, asm.LoadMem(asm.R3, asm.R8, targetOwner, asm.DWord).WithSymbol("no lists"))
	at(onStack+recordOwner, 8)
	// Store whether this thread is in the queue for the GVL. The program that runs when the thread is woken needs to
	// know this.
	ins = append(ins,
		asm.Mov.Imm(asm.R2, 0),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordReady, asm.DWord), asm.JEq.Imm(asm.R1, 0, "not queued"),
		asm.LoadMem(asm.R3, asm.R8, targetReady, asm.DWord), asm.Add.Reg(asm.R3, asm.R7), asm.JEq.Reg(asm.R1, asm.R3, "not queued"),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordUnblock, asm.DWord), asm.JNE.Imm(asm.R1, 0, "not queued"),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreMem(asm.R9, storedWaits, asm.R2, asm.DWord).WithSymbol("not queued"))
	// The next instructions read the innermost frame. A new thread has no frame, so these words of its record are 0.
	ins = append(ins, asm.LoadMem(asm.R3, asm.RFP, wordAt, asm.DWord))
	ins = append(ins, bpf.ReadTo(contextAt, contextSize)...)
	ins = append(ins, asm.LoadMem(asm.R3, asm.RFP, contextAt+contextCFP, asm.DWord), asm.StoreMem(asm.RFP, onStack+recordCFP, asm.R3, asm.DWord))
	ins = append(ins, bpf.ReadTo(frameAt, 16)...)
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, frameAt+framePC, asm.DWord), asm.StoreMem(asm.RFP, onStack+recordPC, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, frameAt+frameSP, asm.DWord), asm.StoreMem(asm.RFP, onStack+recordSP, asm.R1, asm.DWord),
		// The next instructions read the system call.
		asm.Mov.Reg(asm.R1, asm.R6), asm.FnTaskPtRegs.Call(),
		asm.LoadMem(asm.R1, asm.R0, k.syscall[0], asm.DWord), asm.StoreMem(asm.RFP, onStack+recordSyscall, asm.R1, asm.DWord))
	for i, from := range k.args {
		ins = append(ins, asm.LoadMem(asm.R1, asm.R0, from, asm.DWord), asm.StoreMem(asm.RFP, onStack+recordArgs+int16(8*i), asm.R1, asm.DWord))
	}
	// The next instructions read the first descriptor of a poll. Later, when ddtop reads the record, the program's
	// array of descriptors may be gone.
	ins = append(ins,
		asm.Mov.Imm(asm.R1, -1), asm.StoreMem(asm.RFP, onStack+recordPolled, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordSyscall, asm.DWord),
		asm.JEq.Imm(asm.R1, callPoll, "polls"), asm.JNE.Imm(asm.R1, callPpoll, "no poll"),
		asm.LoadMem(asm.R3, asm.RFP, onStack+recordArgs, asm.DWord).WithSymbol("polls"), asm.JEq.Imm(asm.R3, 0, "no poll"))
	ins = append(ins, bpf.ReadTo(nodeAt, 8)...)
	ins = append(ins,
		asm.JNE.Imm(asm.R0, 0, "no poll"),
		asm.LoadMem(asm.R1, asm.RFP, nodeAt, asm.DWord), asm.StoreMem(asm.RFP, onStack+recordPolled, asm.R1, asm.DWord),
		asm.Ja.Label("no poll"),
		// The program comes here in two cases. If the native thread runs no Ruby thread, no record is made. If the
		// words that would show this could not be read, a record reports the failure.
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordFailed, asm.Word).WithSymbol("no thread"), asm.JEq.Imm(asm.R1, 0, "end"),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("no poll"))
	ins = append(ins, b.findWork()...)
	ins = append(ins, b.emit(append(b.copyWork(), b.copyStack(kind)...)...)...)
	return append(ins, b.unstored()...)
}

// unstored emits what a program does if it has no data of the thread. Either there is no memory for this data, or the
// data is being changed just now. The kernel keeps little memory ready for such data, so this happens to new threads
// and at the start. The program then makes a record which says that nothing could be read. Without a record, the state
// of all threads would be unknown (switches.Machine.Lost).
func (b *builder) unstored() asm.Instructions {
	ins := noRecord()
	ins[0] = ins[0].WithSymbol("not stored")
	ins = append(ins,
		asm.FnKtimeGetNs.Call(), asm.StoreMem(asm.RFP, onStack+recordNS, asm.R0, asm.DWord),
		asm.LoadMem(asm.R1, asm.R6, b.kernel.pid, asm.Word), asm.StoreMem(asm.RFP, onStack+recordTID, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.R6, b.kernel.tgid, asm.Word), asm.StoreMem(asm.RFP, onStack+recordTGID, asm.R1, asm.Word),
		asm.StoreImm(asm.RFP, onStack+recordKind, int64(switches.Out), asm.Word),
		asm.StoreImm(asm.RFP, onStack+recordFailed, 1, asm.Word))
	ins = append(ins, b.toRing()...)
	return append(ins,
		asm.Mov.Reg(asm.R2, asm.R8), asm.Mov.Imm(asm.R1, 1),
		asm.JEq.Imm(asm.R0, 0, "said"),
		asm.Add.Imm(asm.R2, targetLost), asm.StoreXAdd(asm.R2, asm.R1, asm.DWord), asm.Ja.Label("over"),
		asm.Add.Imm(asm.R2, targetFailed).WithSymbol("said"), asm.StoreXAdd(asm.R2, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("over"), asm.Return())
}

// toRing emits instructions that write the record to the ring. Afterwards R0 is 0, unless the ring was full.
func (b *builder) toRing() asm.Instructions {
	return asm.Instructions{
		asm.LoadMapValue(asm.R4, b.bell, 0), asm.LoadMem(asm.R4, asm.R4, 0, asm.DWord),
		asm.LoadMapPtr(asm.R1, b.ring),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, onStack), asm.Mov.Imm(asm.R3, recordSize),
		asm.FnRingbufOutput.Call(),
	}
}

// copyStack emits instructions that copy a thread's stack in two cases: the thread has the GVL at a tick of the clock,
// or it waits for the GVL. R9 has the data kept for the thread, and R7 the rb_thread_t.
func (b *builder) copyStack(kind switches.Kind) asm.Instructions {
	const or = "stacked"
	ins := asm.Instructions{
		asm.StoreMem(asm.RFP, savedAt, asm.R8, asm.DWord),
		asm.LoadMem(asm.R1, asm.R8, targetStacks, asm.DWord), asm.JEq.Imm(asm.R1, 0, or),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordThread, asm.DWord), asm.JEq.Imm(asm.R1, 0, or),
	}
	if kind == switches.Clock {
		ins = append(ins,
			asm.LoadMem(asm.R1, asm.RFP, onStack+recordOwner, asm.DWord), asm.JNE.Reg(asm.R1, asm.R7, or),
			asm.LoadMem(asm.R2, asm.RFP, onStack+recordNS, asm.DWord), asm.LoadMem(asm.R1, asm.R8, targetClockNS, asm.DWord),
			asm.Mov.Reg(asm.R3, asm.R2), asm.Sub.Reg(asm.R3, asm.R1), asm.JLT.Imm(asm.R3, clockStackNS, or),
			asm.StoreMem(asm.R8, targetClockNS, asm.R2, asm.DWord))
	} else {
		// If several CPUs execute these instructions at the same time, one of them can overwrite another's increment of
		// a counter. This does not matter: the limit need not be exact.
		ins = append(ins,
			asm.LoadMem(asm.R1, asm.R9, storedWaits, asm.DWord), asm.JEq.Imm(asm.R1, 0, or),
			asm.LoadMem(asm.R1, asm.R8, targetSpanNS, asm.DWord),
			asm.LoadMem(asm.R2, asm.RFP, onStack+recordNS, asm.DWord),
			asm.Mov.Reg(asm.R3, asm.R2), asm.Sub.Reg(asm.R3, asm.R1),
			asm.JLT.Imm(asm.R3, spanNS, "same span"),
			asm.StoreMem(asm.R8, targetSpanNS, asm.R2, asm.DWord),
			asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R8, targetInSpan, asm.R1, asm.DWord),
			asm.LoadMem(asm.R1, asm.R8, targetInSpan, asm.DWord).WithSymbol("same span"),
			asm.JGE.Imm(asm.R1, waitStacks, or),
			asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R8, targetInSpan, asm.R1, asm.DWord))
	}
	ins = append(ins, asm.LoadMem(asm.R3, asm.RFP, wordAt, asm.DWord))
	ins = append(ins, bpf.CopyStack(bpf.StackPlaces{
		Ring: b.stacks, NS: onStack + recordNS, TID: onStack + recordTID, TGID: onStack + recordTGID,
		Context: contextAt, SP: spAt, Frames: framesAt, Values: valuesAt, Running: kind == switches.Clock,
	}, or)...)
	return append(ins, asm.LoadMem(asm.R8, asm.RFP, savedAt, asm.DWord).WithSymbol(or))
}

// emit emits instructions that put the record into the ring, and count it in the target in R8. Then come the
// instructions in the parameter then, which must not change R8. The last instructions add the time since the program
// began the record to the cost of all records.
func (b *builder) emit(then ...asm.Instruction) asm.Instructions {
	add := func(place int16, ins ...asm.Instruction) asm.Instructions {
		return append(ins, asm.Mov.Reg(asm.R2, asm.R8), asm.Add.Imm(asm.R2, int32(place)), asm.StoreXAdd(asm.R2, asm.R1, asm.DWord))
	}
	ins := append(b.toRing(), asm.JEq.Imm(asm.R0, 0, "kept"))
	ins = append(ins, add(targetLost, asm.Mov.Imm(asm.R1, 1))...)
	ins = append(ins, add(targetRecords, asm.Mov.Imm(asm.R1, 1).WithSymbol("kept"))...)
	ins = append(ins, add(targetFailed, asm.LoadMem(asm.R1, asm.RFP, onStack+recordFailed, asm.Word))...)
	ins = append(ins, then...)
	ins = append(ins, asm.FnKtimeGetNs.Call(), asm.LoadMem(asm.R1, asm.RFP, onStack+recordNS, asm.DWord), asm.Sub.Reg(asm.R0, asm.R1))
	ins = append(ins, add(targetBusyNS, asm.Mov.Reg(asm.R1, asm.R0))...)
	return append(ins, asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
}

// woken returns the program that runs when a thread is about to become runnable. The thread that wakes it executes the
// program. The program stores the time in the data of the woken thread. It also stores whether the waking thread has
// just given the GVL to the woken thread.
func (b *builder) woken() asm.Instructions {
	ins := asm.Instructions{
		asm.LoadMem(asm.R6, asm.R1, 0, asm.DWord),
		asm.LoadMem(asm.R2, asm.R6, b.kernel.tgid, asm.Word),
	}
	ins = append(ins, b.find(asm.R2, "end")...)
	ins = append(ins, b.stored(asm.R6, 1, "end")...)
	ins = append(ins,
		asm.FnKtimeGetNs.Call(),
		asm.Mov.Reg(asm.R7, asm.R0),
		asm.StoreMem(asm.R9, storedWoken, asm.R7, asm.DWord),
		asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R9, storedWakerOwner, asm.R1, asm.DWord),
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(asm.R1, asm.R0), asm.LSh.Imm(asm.R1, 32), asm.RSh.Imm(asm.R1, 32),
		asm.StoreMem(asm.R9, storedWaker, asm.R1, asm.DWord),
		asm.RSh.Imm(asm.R0, 32),
		asm.LoadMem(asm.R1, asm.RFP, keyAt, asm.Word),
		asm.JNE.Reg(asm.R0, asm.R1, "end"),
		asm.LoadMem(asm.R3, asm.R8, targetOwner, asm.DWord))
	ins = append(ins, bpf.ReadTo(wordAt, 8)...)
	ins = append(ins,
		asm.JNE.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.RFP, wordAt, asm.DWord), asm.StoreMem(asm.R9, storedWakerOwner, asm.R1, asm.DWord),
		asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.LoadMapPtr(asm.R1, b.threads), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0),
		asm.FnTaskStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, "end"),
		asm.LoadMem(asm.R1, asm.R0, storedGave, asm.DWord), asm.JNE.Imm(asm.R1, 0, "end"),
		asm.LoadMem(asm.R1, asm.R0, storedThread, asm.DWord), asm.JEq.Imm(asm.R1, 0, "end"),
		asm.LoadMem(asm.R2, asm.RFP, wordAt, asm.DWord),
		asm.LoadMem(asm.R3, asm.R8, targetBefore33, asm.DWord), asm.JEq.Imm(asm.R3, 0, "named"),
		// Up to 3.2, the GVL has no owner while Ruby wakes up the first thread in the queue. If there is an owner, the
		// GVL is not given away.
		asm.JNE.Imm(asm.R2, 0, "end"),
		asm.LoadMem(asm.R3, asm.R9, storedWaits, asm.DWord), asm.JEq.Imm(asm.R3, 0, "end"),
		asm.Ja.Label("gave"),
		asm.LoadMem(asm.R3, asm.R9, storedThread, asm.DWord).WithSymbol("named"), asm.JNE.Reg(asm.R2, asm.R3, "end"),
		asm.StoreMem(asm.R0, storedGave, asm.R7, asm.DWord).WithSymbol("gave"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("end"), asm.Return())
	return ins
}
