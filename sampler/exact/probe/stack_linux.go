package probe

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/exact"
)

// A thread that has waited for the GVL has the same control frames from when it gave the GVL away until it has it again. So they are copied
// when a wait is over, and it is known that it was long enough to be worth it.
const (
	// maxLong copies are made in stackNS, of which waits shorter than longWaitNS may take maxStacks, and those shorter than shortWaitNS
	// maxShort: that bounds what they cost, some 3 µs each. How long a wait was is counted from when the thread began to sleep, which with
	// a Mutex or a Queue is when it gave the GVL away.
	shortWaitNS, longWaitNS               = 50_000, 5_000_000
	stackNS, maxStacks, maxShort, maxLong = 10_000_000, 12, 6, 36
	// maxFrames and maxValues are how much is copied at most of a stack's control frames and of its values, in bytes; of a larger stack
	// nothing is: its frames are of 56 or 64 bytes, 256 of them. valueSlack is how much more than its stack pointer tells is copied of the
	// values: a JIT's can be old.
	maxFrames, maxValues, valueSlack = 16 << 10, 24 << 10, 512
	// maxStackSize bounds the size of a VM's stack that is believed, in words of 8 bytes: 1 GB.
	maxStackSize = 1 << 27
	// maxSleepers bounds the threads of which it is known when they began to sleep; of more it is those that did last.
	maxSleepers = 1 << 14
)

// The copy of a stack in its ring: these words, then room for the frames, and for the values.
const (
	stackAtNS = 8 * iota
	stackTID
	stackLow
	stackEnd
	stackCFP
	stackFrames // bytes
	stackValues
	stackHead
	stackSize = stackHead + maxFrames + maxValues
)

// stackRingBytes is the size of the ring for stacks, leastStackRing what one for fewer has at least: a page of the largest size, and a stack.
const stackRingBytes, leastStackRing = 4 << 20, 1 << 16

// Where a program keeps what belongs to a stack, on its own one, below wordAt: the first words of an execution context, the stack pointer of
// the innermost frame, sizes, and a thread's number.
const (
	contextAt = wordAt - contextSize
	spAt      = contextAt - 8
	framesAt  = spAt - 8
	valuesAt  = framesAt - 8
	keyAt     = valuesAt - 8
)

// The first words of rb_execution_context_t, and where a control frame has its stack pointer (vm_core.h, Ruby 2.6 to 4.0).
const (
	contextStack, contextWords, contextCFP, contextSize = 0, 8, 16, 24
	frameSP                                             = 8
)

// stackMaps are what the programs need to copy stacks.
type stackMaps struct {
	// slept has when a native thread began to sleep in the scheduler last, until its stack has been copied; ring takes the copies.
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

// noteSleep notes that the thread begins to sleep.
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

// copyStack copies the stack of a thread that has the GVL now and has waited for it. R7 are the counters, R9 is the rb_thread_t; R6 and R8
// are not needed any more.
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
		// Threads that come here at once can lose a number: the bound is not of one copy more or less.
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
	ins = append(ins, readTo(contextAt, contextSize)...)
	ins = append(ins,
		asm.JNE.Imm(asm.R0, 0, to),
		asm.LoadMem(asm.R6, asm.RFP, contextAt+contextStack, asm.DWord), // the low end
		asm.LoadMem(asm.R1, asm.RFP, contextAt+contextWords, asm.DWord),
		asm.JGT.Imm(asm.R1, maxStackSize, to),
		asm.LSh.Imm(asm.R1, 3),
		asm.Add.Reg(asm.R1, asm.R6),
		asm.LoadMem(asm.R3, asm.RFP, contextAt+contextCFP, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R1), asm.Sub.Reg(asm.R2, asm.R3),
		asm.StoreMem(asm.RFP, contextAt+contextWords, asm.R1, asm.DWord), // the end, from now on
		asm.StoreMem(asm.RFP, framesAt, asm.R2, asm.DWord),
		asm.JGT.Imm(asm.R2, maxFrames, to),
		// The values: up to the stack pointer of the innermost frame, and some more, but not into the frames.
		asm.Add.Imm(asm.R3, frameSP),
	)
	ins = append(ins, readTo(spAt, 8)...)
	ins = append(ins,
		asm.JNE.Imm(asm.R0, 0, to),
		asm.LoadMem(asm.R1, asm.RFP, spAt, asm.DWord),
		asm.Sub.Reg(asm.R1, asm.R6),
		asm.JGT.Imm(asm.R1, maxValues-valueSlack, to),
		asm.Add.Imm(asm.R1, valueSlack),
		asm.LoadMem(asm.R2, asm.RFP, contextAt+contextCFP, asm.DWord),
		asm.Sub.Reg(asm.R2, asm.R6),
		asm.JLE.Reg(asm.R1, asm.R2, "values fit"),
		asm.Mov.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.RFP, valuesAt, asm.R1, asm.DWord).WithSymbol("values fit"),
		// Into the ring at once: a buffer of the CPU's would be another thread's as soon as this one loses it.
		asm.LoadMapPtr(asm.R1, m.ring.FD()),
		asm.Mov.Imm(asm.R2, stackSize),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, to),
		asm.Mov.Reg(asm.R8, asm.R0),
	)
	for _, w := range []struct{ to, from int16 }{
		{stackAtNS, onStack + recordNS}, {stackLow, contextAt + contextStack}, {stackEnd, contextAt + contextWords},
		{stackCFP, contextAt + contextCFP}, {stackFrames, framesAt}, {stackValues, valuesAt},
	} {
		ins = append(ins, asm.LoadMem(asm.R1, asm.RFP, w.from, asm.DWord), asm.StoreMem(asm.R8, w.to, asm.R1, asm.DWord))
	}
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordTID, asm.Word), asm.StoreMem(asm.R8, stackTID, asm.R1, asm.DWord),
		// The verifier wants to see the bounds where they are used.
		asm.LoadMem(asm.R2, asm.RFP, framesAt, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, "discard"),
		asm.JGT.Imm(asm.R2, maxFrames, "discard"),
		asm.Mov.Reg(asm.R1, asm.R8), asm.Add.Imm(asm.R1, stackHead),
		asm.LoadMem(asm.R3, asm.RFP, contextAt+contextCFP, asm.DWord),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "discard"),
		asm.LoadMem(asm.R2, asm.RFP, valuesAt, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, "discard"),
		asm.JGT.Imm(asm.R2, maxValues, "discard"),
		asm.Mov.Reg(asm.R1, asm.R8), asm.Add.Imm(asm.R1, stackHead+maxFrames),
		asm.Mov.Reg(asm.R3, asm.R6),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "discard"),
		asm.Mov.Reg(asm.R1, asm.R8), asm.Mov.Imm(asm.R2, noWakeup),
		asm.FnRingbufSubmit.Call(),
		asm.Ja.Label(to),
		asm.Mov.Reg(asm.R1, asm.R8).WithSymbol("discard"), asm.Mov.Imm(asm.R2, noWakeup),
		asm.FnRingbufDiscard.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol(to), // a place to come to
	)
	return ins
}

// readTo reads from the target's address in R3 to a place on the stack.
func readTo(to int16, size int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, size), asm.FnProbeReadUser.Call()}
}

// Stack is the stack of a thread when its wait for the GVL was over, which is what it was since the thread had given the GVL away.
type Stack struct {
	// NS and TID are those of the record of the wait's end.
	NS  int64
	TID int32
	// Low and End are the ends of the VM's stack, CFP the address of the innermost control frame.
	Low, End, CFP attach.Address
	// Frames is what is from CFP to End, Values from Low on.
	Frames, Values []byte
}

// decodeStack makes a Stack of what a program has put into the ring.
func decodeStack(b []byte) (Stack, error) {
	if len(b) < stackSize {
		return Stack{}, fmt.Errorf("a stack of %d bytes, not %d", len(b), stackSize)
	}
	at := func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }
	frames, values := at(stackFrames), at(stackValues)
	if frames > maxFrames || values > maxValues {
		return Stack{}, fmt.Errorf("a stack with %d and %d bytes", frames, values)
	}
	return Stack{
		NS: int64(at(stackAtNS)), TID: int32(at(stackTID)), Low: attach.Address(at(stackLow)), End: attach.Address(at(stackEnd)),
		CFP: attach.Address(at(stackCFP)), Frames: b[stackHead:][:frames], Values: b[stackHead+maxFrames:][:values],
	}, nil
}

// copies reports whether a kind of probe has to do with stacks.
func (b *builder) copies() bool {
	return b.stacks != nil && b.target.Stacks && (b.kind == exact.Unlocked || b.kind == exact.Slept)
}
