package probe

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/exact"
)

// While a thread waits for the GVL, its control frames (the Ruby stack) do not change. So a BPF program can copy them
// at the end of the wait, when it knows whether the wait was long.
const (
	// In each period of stackNS, at most maxLong stacks are copied. At most maxStacks of them are for waits shorter
	// than longWaitNS, and at most maxShort for waits shorter than shortWaitNS. All times are in ns. This limits the
	// cost, because each copy takes about 3 µs. Here a wait is the time since the thread began to sleep. For a thread
	// that waits for a Mutex or a Queue and then for the GVL, it includes both waits.
	shortWaitNS, longWaitNS               = 50_000, 5_000_000
	stackNS, maxStacks, maxShort, maxLong = 10_000_000, 12, 6, 36
	// maxSleepers is the largest number of threads for which the BPF programs keep the time at which they fell asleep.
	// If more threads sleep, the latest ones are kept.
	maxSleepers = 1 << 14
)

// stackRingBytes is the size of the ring for stacks, in bytes. If ddtop follows many processes, each has a smaller
// ring, of at least leastStackRing bytes. The size of a ring must be a multiple of a memory page, and leastStackRing is
// the largest size of a page. A ring of this size also has room for one stack.
const stackRingBytes, leastStackRing = 4 << 20, 1 << 16

// Offsets on a BPF program's own stack, below wordAt, of the values for copying a Ruby stack: the first words of an
// execution context, the stack pointer of the innermost frame, sizes, and a thread's number.
const (
	contextAt = wordAt - bpf.ContextSize
	spAt      = contextAt - 8
	framesAt  = spAt - 8
	valuesAt  = framesAt - 8
	keyAt     = valuesAt - 8
)

// stackMaps are the maps that the programs need to copy stacks.
type stackMaps struct {
	// slept maps a native thread to the time when it last began to sleep in the scheduler. The entry is removed when
	// the thread's stack has been copied. ring receives the copies.
	slept, ring *ebpf.Map
}

// newStackMaps makes the maps. The ring has 1/share of the size stackRingBytes, but at least leastStackRing bytes.
func newStackMaps(share uint32) (m stackMaps, err error) {
	if m.slept, err = ebpf.NewMap(&ebpf.MapSpec{Name: "ddtop_slept", Type: ebpf.LRUHash, KeySize: 4, ValueSize: 8, MaxEntries: maxSleepers}); err != nil {
		return m, explain("making a BPF map", err)
	}
	if m.ring, err = ebpf.NewMap(&ebpf.MapSpec{Name: "ddtop_stacks", Type: ebpf.RingBuf, MaxEntries: max(stackRingBytes/share, leastStackRing)}); err != nil {
		return m, explain("making a ring for stacks", err)
	}
	return m, nil
}

func (m *stackMaps) noteSleep() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordTID, asm.Word),
		asm.StoreMem(asm.RFP, keyAt, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, m.slept.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, onStack+recordNS),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnMapUpdateElem.Call(),
	}
}

// copyStack emits the instructions that copy the stack of a thread that has just got the GVL after a wait. R7 has the
// counters, R9 the rb_thread_t. The instructions may overwrite R6 and R8.
func (m *stackMaps) copyStack(t *Target) asm.Instructions {
	const to = "stacked"
	ins := asm.Instructions{
		asm.JEq.Imm(asm.R9, 0, to),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordOwner, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R9, to),
	}
	if !t.Before33 {
		ins = append(ins,
			asm.LoadMem(asm.R1, asm.RFP, onStack+recordRunning, asm.DWord),
			asm.JEq.Imm(asm.R1, 0, to),
			asm.Mov.Reg(asm.R2, asm.R9), asm.Add.Imm(asm.R2, int32(t.RunningNode)),
			asm.JEq.Reg(asm.R1, asm.R2, to))
	}
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordTID, asm.Word),
		asm.StoreMem(asm.RFP, keyAt, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, m.slept.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, keyAt),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, to),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, to), // the stack of this sleep was already copied
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.R0, 0, asm.R4, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, onStack+recordNS, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.R2), asm.Sub.Reg(asm.R3, asm.R1),
		asm.Mov.Imm(asm.R5, maxLong),
		asm.JGE.Imm(asm.R3, longWaitNS, "not short"),
		asm.Mov.Imm(asm.R5, maxStacks),
		asm.JGE.Imm(asm.R3, shortWaitNS, "not short"),
		asm.Mov.Imm(asm.R5, maxShort),
		// Several threads can run these instructions at the same time, so an increment of the counter can be lost. Then
		// one stack more than the limit is copied, which does no harm.
		asm.LoadMem(asm.R1, asm.R7, countSpanNS, asm.DWord).WithSymbol("not short"),
		asm.Mov.Reg(asm.R3, asm.R2), asm.Sub.Reg(asm.R3, asm.R1),
		asm.JLT.Imm(asm.R3, stackNS, "same span"),
		asm.StoreMem(asm.R7, countSpanNS, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.R7, countInSpan, asm.R4, asm.DWord),
		asm.LoadMem(asm.R1, asm.R7, countInSpan, asm.DWord).WithSymbol("same span"),
		asm.JGE.Reg(asm.R1, asm.R5, to),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R7, countInSpan, asm.R1, asm.DWord),
	)
	// The rest copies the execution context and the stack.
	if t.ThreadOfEC < 0 {
		ins = append(ins, word(wordAt, asm.R9, int64(t.ContextOfThread))...)
	}
	ins = append(ins, asm.LoadMem(asm.R3, asm.RFP, wordAt, asm.DWord))
	ins = append(ins, bpf.CopyStack(bpf.StackPlaces{
		Ring: m.ring.FD(), NS: onStack + recordNS, TID: onStack + recordTID, Context: contextAt, SP: spAt, Frames: framesAt, Values: valuesAt,
	}, to)...)
	return append(ins,
		asm.Mov.Imm(asm.R0, 0).WithSymbol(to), // a target for jumps
	)
}

// Stack is the stack of a thread at the end of its wait for the GVL. The thread has had this stack since it gave the
// GVL away. NS and TID are the same as in the record of the wait's end.
type Stack = bpf.Stack

// copies reports whether the BPF program of this probe has a part in copying stacks. One program notes when a thread
// begins to sleep, because the length of the sleep decides whether its stack is copied. The other copies the stack.
func (b *builder) copies() bool {
	return b.stacks != nil && b.target.Stacks && (b.kind == exact.Unlocked || b.kind == exact.Slept)
}
