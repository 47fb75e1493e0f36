package probe

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/exact"
)

// A thread that waits for the GVL has the same control frames from when it gave the GVL away until it has it again.
// So they are copied at the end of a wait, when its length is known.
const (
	// In each stackNS, in ns, at most maxLong copies are made. maxStacks of them may be for waits shorter than
	// longWaitNS, and maxShort for waits shorter than shortWaitNS. This bounds the cost, which is about 3 µs for each
	// copy. A wait counts from when the thread began to sleep. With a Mutex or a Queue this is when it gave the GVL
	// away.
	shortWaitNS, longWaitNS               = 50_000, 5_000_000
	stackNS, maxStacks, maxShort, maxLong = 10_000_000, 12, 6, 36
	// maxSleepers bounds the threads with a known time of falling asleep. The latest are kept.
	maxSleepers = 1 << 14
)

// stackRingBytes is the size of the ring for stacks, in bytes. leastStackRing is the least size of a smaller ring: a
// page of the largest size, and a stack.
const stackRingBytes, leastStackRing = 4 << 20, 1 << 16

// Offsets on a BPF program's own stack, below wordAt, of the values that belong to a copied stack. They are the first
// words of an execution context, the stack pointer of the innermost frame, sizes, and a thread's number.
const (
	contextAt = wordAt - bpf.ContextSize
	spAt      = contextAt - 8
	framesAt  = spAt - 8
	valuesAt  = framesAt - 8
	keyAt     = valuesAt - 8
)

// stackMaps are the maps that the programs need to copy stacks.
type stackMaps struct {
	// slept has the time when a native thread last began to sleep in the scheduler, until its stack has been copied.
	// ring takes the copies.
	slept, ring *ebpf.Map
}

// newStackMaps makes them; the ring is of a share of the usual size.
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

// copyStack emits the instructions that copy the stack of a thread that has the GVL now and has waited for it. R7 has
// the counters, R9 the rb_thread_t. R6 and R8 are free.
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
		asm.JEq.Imm(asm.R1, 0, to), // copied since
		asm.Mov.Imm(asm.R4, 0),
		asm.StoreMem(asm.R0, 0, asm.R4, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, onStack+recordNS, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.R2), asm.Sub.Reg(asm.R3, asm.R1),
		asm.Mov.Imm(asm.R5, maxLong),
		asm.JGE.Imm(asm.R3, longWaitNS, "not short"),
		asm.Mov.Imm(asm.R5, maxStacks),
		asm.JGE.Imm(asm.R3, shortWaitNS, "not short"),
		asm.Mov.Imm(asm.R5, maxShort),
		// If several threads come here at once, a count can be lost. A copy more or less does not matter to the bound.
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
	// The execution context.
	if t.ThreadOfEC < 0 {
		ins = append(ins, word(wordAt, asm.R9, int64(t.ContextOfThread))...)
	}
	ins = append(ins, asm.LoadMem(asm.R3, asm.RFP, wordAt, asm.DWord))
	ins = append(ins, bpf.CopyStack(bpf.StackPlaces{
		Ring: m.ring.FD(), NS: onStack + recordNS, TID: onStack + recordTID, Context: contextAt, SP: spAt, Frames: framesAt, Values: valuesAt,
	}, to)...)
	return append(ins,
		asm.Mov.Imm(asm.R0, 0).WithSymbol(to), // a place to come to
	)
}

// Stack is the stack of a thread at the end of its wait for the GVL. The thread has had this stack since it gave the
// GVL away. NS and TID are the same as in the record of the wait's end.
type Stack = bpf.Stack

// copies reports whether a kind of probe has to do with stacks.
func (b *builder) copies() bool {
	return b.stacks != nil && b.target.Stacks && (b.kind == exact.Unlocked || b.kind == exact.Slept)
}
