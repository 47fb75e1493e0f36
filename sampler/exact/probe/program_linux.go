package probe

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/ddtop/ddtop/sampler/exact"
)

// recordSize is the size of a record in the ring, in bytes. The other constants are the offsets of a record's words.
const (
	recordNS = 8 * iota
	recordTID
	recordThread
	recordOwner
	recordReady
	recordRunning
	recordTail
	recordDelay
	recordSize
	recordKind = recordTID + 4
)

// Offsets of the programs' counters, in bytes. All counters are in the only value of the map of counters.
const (
	countHits = 8 * iota
	countLost
	countBusyNS
	countOff // if it is not 0, nothing is recorded
	// countSpanNS is when the current period of stackNS began, in ns. countInSpan counts the stacks that were copied in
	// this period, because their number is limited.
	countSpanNS
	countInSpan
	counters
)

// These constants are offsets on a BPF program's stack. The record is at onStack. Below it, at wordAt, is room for a
// single value. Below that value, at bothAt, is room for two words that are at most bothSize bytes apart. The
// instructions that copy a Ruby stack run later and use the bytes of bothAt again.
const (
	onStack  = -recordSize
	wordAt   = onStack - 8
	bothSize = 64
	bothAt   = wordAt - bothSize
)

// maxBusyNS is the longest time, in ns, that a BPF program can run without an interrupt. A run that took longer was
// interrupted. Its cost is then counted as usualBusyNS, the usual time of a run in ns.
const maxBusyNS, usualBusyNS = 20_000, 1_000

// Only one of busyEvery runs of a program is measured, because reading the clock and counting take time themselves. The
// program chooses a run by some bits of the time at which the run begins, from the bit busyBit on.
const busyEvery, busyBit = 16, 6

// noWakeup is the flag to add a record without waking the ring's reader (BPF_RB_NO_WAKEUP). The reader polls instead.
const noWakeup = 1

// kernelPlaces are this kernel's offsets of the fields of a task that a BPF program reads, in bytes from the start of
// struct task_struct.
type kernelPlaces struct {
	set instructionSet
	// threadPointer is the task's thread pointer. runDelay is how long the task was runnable without a CPU, in ns.
	threadPointer, runDelay int16
}

// builder makes the BPF program for one kind of probe.
type builder struct {
	target   *Target
	kernel   kernelPlaces
	kind     exact.Kind
	argument argument
	counters int // the descriptor of the map of counters
	ring     int
	stacks   *stackMaps // nil if stacks are not copied
	// calls is the descriptor of the map that counts the hits of each call site. It is 0 if hits are not counted: if
	// the probe is in a function instead of at its calls, or for the Kind Slept.
	calls int
}

// word emits the instructions that read a word of the target's memory, and store it on the program's stack at the
// offset to. The word's address is the value of the register from, plus an offset. If the memory cannot be read, the
// stored word is zero.
func word(to int16, from asm.Register, offset int64) asm.Instructions {
	ins := asm.Instructions{asm.Mov.Reg(asm.R3, from)}
	if offset != 0 {
		ins = append(ins, asm.LoadImm(asm.R2, offset, asm.DWord), asm.Add.Reg(asm.R3, asm.R2))
	}
	return append(ins, asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, 8), asm.FnProbeReadUser.Call())
}

// wordAtAddress is like word, but for a fixed address in the target's memory.
func wordAtAddress(to int16, at uint64) asm.Instructions { return read(to, 8, atAddress(int64(at))) }

// atAddress emits the instruction that puts a fixed address into R3.
func atAddress(at int64) asm.Instructions {
	return asm.Instructions{asm.LoadImm(asm.R3, at, asm.DWord)}
}

// read emits the instructions that read size bytes of the target's memory, and store them on the program's stack at the
// offset to. The instructions in the parameter from must put the memory's address into R3.
func read(to int16, size int32, from asm.Instructions) asm.Instructions {
	return append(from, asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, size), asm.FnProbeReadUser.Call())
}

// twoWords emits the instructions that read the words at a and b, and store them at toA and toB on the program's stack.
// If the words are near each other, one read is enough. The function from emits the instructions that put a word's
// address into R3.
func twoWords(toA, toB int16, a, b int64, from func(place int64) asm.Instructions) asm.Instructions {
	first := min(a, b)
	size := max(a, b) + 8 - first
	if size > bothSize {
		return append(read(toA, 8, from(a)), read(toB, 8, from(b))...)
	}
	return append(read(bothAt, int32(size), from(first)),
		asm.LoadMem(asm.R1, asm.RFP, bothAt+int16(a-first), asm.DWord), asm.StoreMem(asm.RFP, toA, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, bothAt+int16(b-first), asm.DWord), asm.StoreMem(asm.RFP, toB, asm.R1, asm.DWord))
}

// program returns the BPF program. R6 has the registers of the thread that hit the probe, and R7 has the counters. R8
// has the numbers of the process and the thread. R9 has the task at first, and later the thread's rb_thread_t.
func (b *builder) program() asm.Instructions {
	ins := asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMapValue(asm.R7, b.counters, 0),
	}
	if b.kind != exact.Exited { // the end of a thread is no hit, and the program for it runs in all processes
		ins = append(ins, asm.Mov.Imm(asm.R1, 1), asm.StoreXAdd(asm.R7, asm.R1, asm.DWord)) // countHits is the first counter
	}
	switch b.argument {
	case firstArgument:
		ins = append(ins, asm.LoadMem(asm.R2, asm.R6, b.kernel.set.first, asm.DWord))
	case secondArgument:
		ins = append(ins, asm.LoadMem(asm.R2, asm.R6, b.kernel.set.second, asm.DWord))
	}
	if b.argument != noArgument {
		ins = append(ins, asm.LoadImm(asm.R3, int64(b.target.Lock), asm.DWord), asm.JNE.Reg(asm.R2, asm.R3, b.useless()))
		ins = append(ins, b.countCall(callUseful)...)
	}
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.R7, countOff, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "out"),
		asm.FnGetCurrentPidTgid.Call(),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.RSh.Imm(asm.R0, 32),
		asm.JNE.Imm(asm.R0, int32(b.target.PID), "out"),
		asm.FnKtimeGetNs.Call(),
		asm.StoreMem(asm.RFP, onStack+recordNS, asm.R0, asm.DWord),
		asm.StoreMem(asm.RFP, onStack+recordTID, asm.R8, asm.Word),
		asm.StoreImm(asm.RFP, onStack+recordKind, int64(b.kind), asm.Word),
	)
	if b.kind == exact.Exited {
		ins = append(ins, asm.Mov.Imm(asm.R1, 0))
		for at := int16(recordThread); at < recordSize; at += 8 {
			ins = append(ins, asm.StoreMem(asm.RFP, onStack+at, asm.R1, asm.DWord))
		}
	} else {
		ins = append(ins, b.readScheduler()...)
	}
	ins = append(ins,
		asm.LoadMapPtr(asm.R1, b.ring),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, onStack), asm.Mov.Imm(asm.R3, recordSize), asm.Mov.Imm(asm.R4, noWakeup),
		asm.FnRingbufOutput.Call(),
		asm.JEq.Imm(asm.R0, 0, "kept"),
		asm.Mov.Imm(asm.R1, 1),
		asm.Mov.Reg(asm.R2, asm.R7), asm.Add.Imm(asm.R2, countLost),
		asm.StoreXAdd(asm.R2, asm.R1, asm.DWord),
		asm.Ja.Label("told"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("kept"),
	)
	switch {
	case !b.copies():
	case b.kind == exact.Slept:
		ins = append(ins, b.stacks.noteSleep()...)
	default:
		ins = append(ins, b.stacks.copyStack(b.target)...)
	}
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordNS, asm.DWord).WithSymbol("told"),
		asm.RSh.Imm(asm.R1, busyBit),
		asm.And.Imm(asm.R1, busyEvery-1),
		asm.JNE.Imm(asm.R1, 0, "out"),
		asm.FnKtimeGetNs.Call(),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordNS, asm.DWord),
		asm.Sub.Reg(asm.R0, asm.R1),
		asm.JLE.Imm(asm.R0, maxBusyNS, "counted"),
		asm.Mov.Imm(asm.R0, usualBusyNS),
		asm.Mul.Imm(asm.R0, busyEvery).WithSymbol("counted"),
		asm.Mov.Reg(asm.R2, asm.R7), asm.Add.Imm(asm.R2, countBusyNS),
		asm.StoreXAdd(asm.R2, asm.R0, asm.DWord),
	)
	if b.calls != 0 {
		ins = append(ins, asm.Ja.Label("out"), asm.Mov.Imm(asm.R0, 0).WithSymbol(b.useless()))
		ins = append(ins, b.countCall(callUseless)...)
	}
	return append(ins,
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"),
		asm.Return(),
	)
}

// The two counters of a call site, as offsets in bytes, and their size. A hit is useful if it makes a record.
const (
	callUseless = 8 * iota
	callUseful
	callCounters
)

// useless returns the label to which a program jumps if a hit of its probe makes no record.
func (b *builder) useless() string {
	if b.calls == 0 {
		return "out"
	}
	return "useless"
}

// countCall emits the instructions that count a hit of a call site. They stop counting at leastUseless. The probe's
// cookie is the number of the call site. R6 must have the registers of the thread. The instructions overwrite R0 to R5.
func (b *builder) countCall(counter int32) asm.Instructions {
	if b.calls == 0 {
		return nil
	}
	label := fmt.Sprintf("counted %d", counter)
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnGetAttachCookie.Call(),
		asm.And.Imm(asm.R0, maxCallSites-1),
		asm.Mul.Imm(asm.R0, callCounters),
		asm.LoadMapValue(asm.R1, b.calls, 0),
		asm.Add.Reg(asm.R1, asm.R0),
		asm.Add.Imm(asm.R1, counter),
		asm.LoadMem(asm.R2, asm.R1, 0, asm.DWord),
		asm.JGE.Imm(asm.R2, leastUseless, label),
		asm.Mov.Imm(asm.R2, 1),
		asm.StoreXAdd(asm.R1, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(label),
	}
}

// readScheduler emits the instructions that read the scheduler's state when a thread hits the probe. They find the
// thread's rb_thread_t in its thread-local storage. So ddtop need not tell the BPF program which threads exist.
func (b *builder) readScheduler() asm.Instructions {
	t := b.target
	ins := asm.Instructions{
		asm.FnGetCurrentTaskBtf.Call(),
		asm.Mov.Reg(asm.R9, asm.R0),
		asm.LoadMem(asm.R1, asm.R9, b.kernel.runDelay, asm.DWord),
		asm.StoreMem(asm.RFP, onStack+recordDelay, asm.R1, asm.DWord),
		asm.LoadMem(asm.R9, asm.R9, b.kernel.threadPointer, asm.DWord),
	}
	if t.ThreadOfEC < 0 {
		ins = append(ins, word(onStack+recordThread, asm.R9, t.ExecutionContext)...)
	} else {
		ins = append(ins, word(wordAt, asm.R9, t.ExecutionContext)...)
		ins = append(ins, asm.LoadMem(asm.R9, asm.RFP, wordAt, asm.DWord))
		ins = append(ins, word(onStack+recordThread, asm.R9, int64(t.ThreadOfEC))...)
	}
	ins = append(ins, asm.LoadMem(asm.R9, asm.RFP, onStack+recordThread, asm.DWord))
	if t.Before33 {
		ins = append(ins, wordAtAddress(onStack+recordOwner, t.Owner)...)
	} else {
		ins = append(ins, twoWords(onStack+recordOwner, onStack+recordTail, int64(t.Owner), int64(t.QueueTail), atAddress)...)
	}
	if b.kind == exact.Signalled {
		// A Signalled record is needed only to show that a thread has released the GVL. So make no record for a thread
		// that still has the GVL, or that is no Ruby thread.
		ins = append(ins,
			asm.JEq.Imm(asm.R9, 0, "out"),
			asm.LoadMem(asm.R1, asm.RFP, onStack+recordOwner, asm.DWord),
			asm.JEq.Reg(asm.R1, asm.R9, b.useless()))
		ins = append(ins, b.countCall(callUseful)...)
	}
	if t.Before33 {
		return append(ins, asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.RFP, onStack+recordReady, asm.R1, asm.DWord),
			asm.StoreMem(asm.RFP, onStack+recordRunning, asm.R1, asm.DWord), asm.StoreMem(asm.RFP, onStack+recordTail, asm.R1, asm.DWord))
	}
	inThread := func(offset int64) asm.Instructions {
		return asm.Instructions{asm.Mov.Reg(asm.R3, asm.R9), asm.Add.Imm(asm.R3, int32(offset))}
	}
	return append(ins, twoWords(onStack+recordReady, onStack+recordRunning, int64(t.ReadyNode), int64(t.RunningNode), inThread)...)
}

// decode makes a Record from the bytes that a program has put into the ring.
func (t *Target) decode(b []byte) (exact.Record, error) {
	if len(b) < recordSize {
		return exact.Record{}, fmt.Errorf("a record of %d bytes, not %d", len(b), recordSize)
	}
	at := func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }
	r := exact.Record{
		NS: int64(at(recordNS)), TID: int32(binary.LittleEndian.Uint32(b[recordTID:])), Kind: exact.Kind(b[recordKind]),
		Thread: at(recordThread), Owner: at(recordOwner), DelayNS: int64(at(recordDelay)),
	}
	if t.Before33 {
		r.Before33, r.Queued = true, r.Kind == exact.Slept
		return r, nil
	}
	if r.Thread != 0 {
		r.Queued, r.Linked = linked(at(recordReady), r.Thread+uint64(t.ReadyNode)), linked(at(recordRunning), r.Thread+uint64(t.RunningNode))
	}
	if tail := at(recordTail); tail != 0 && tail != t.QueueTail-8 {
		r.Last = tail - uint64(t.ReadyNode)
	}
	return r, nil
}

// linked reports whether a node is in a list. An unlinked node points to itself or is zero.
func linked(next, node uint64) bool { return next != 0 && next != node }
