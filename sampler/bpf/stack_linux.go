package bpf

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/ddtop/ddtop/attach"
)

const (
	// maxFrames and maxValues limit the two parts of a Ruby stack, in bytes: the control frames and the values. A
	// larger stack is not copied. A frame has 56 or 64 bytes, so 256 frames fit. valueSlack is the number of bytes that
	// are copied beyond the stack pointer, because a JIT may not have updated the stack pointer yet.
	maxFrames, maxValues, valueSlack = 16 << 10, 24 << 10, 512
	// maxStackSize is the largest plausible size of a VM's stack: 1 GB, in words of 8 bytes.
	maxStackSize = 1 << 27
)

// Offsets in the ring's entry for a copied stack. The frames follow these words, and then the values.
const (
	stackAtNS = 8 * iota
	stackTID
	stackLow
	stackEnd
	stackCFP
	stackFrames // the size of the frames, in bytes
	stackValues
	stackHead
	// StackSize is the size of a copied stack in the ring, in bytes.
	StackSize = stackHead + maxFrames + maxValues

	stackTGID, stackRunning = stackTID + 4, stackFrames + 4
)

// These are offsets in rb_execution_context_t. Its first ContextSize bytes are read. frameSP is the offset of the stack
// pointer in a control frame (vm_core.h, Ruby 2.6 to 4.0).
const (
	contextStack, contextWords, contextCFP, ContextSize = 0, 8, 16, 24
	frameSP                                             = 8
)

// StackPlaces says where CopyStack finds its data. Ring is the descriptor of the ring for copies of stacks. The other
// places are offsets on the BPF program's own stack.
//
// Before CopyStack, the program must store the time at NS and the thread's ID at TID. If TGID is not 0, it must store
// the process's ID there. CopyStack needs ContextSize free bytes at Context, and one free word at each other place.
type StackPlaces struct {
	Ring                                       int
	NS, TID, TGID, Context, SP, Frames, Values int16
	// Running is true if the copied thread was interrupted while it ran. The copy records this.
	Running bool
	// More is the number of additional bytes in the ring's entry, after the copy. The field Also has the instructions
	// that fill these bytes. They find the address of the entry in R8, and must not change R8. More and Also can be
	// zero.
	More int32
	Also asm.Instructions
}

// CopyStack emits the instructions that copy the Ruby stack of the current thread into the ring. R3 must have the
// address of the thread's execution context. If the stack cannot be copied, the instructions jump to a label; the
// parameter or is its name. They may overwrite R6 and R8.
func CopyStack(at StackPlaces, or string) asm.Instructions {
	var ins asm.Instructions
	ins = append(ins, ReadTo(at.Context, ContextSize)...)
	ins = append(ins,
		asm.JNE.Imm(asm.R0, 0, or),
		asm.LoadMem(asm.R6, asm.RFP, at.Context+contextStack, asm.DWord), // the address at which the stack begins
		asm.LoadMem(asm.R1, asm.RFP, at.Context+contextWords, asm.DWord),
		asm.JGT.Imm(asm.R1, maxStackSize, or),
		asm.LSh.Imm(asm.R1, 3),
		asm.Add.Reg(asm.R1, asm.R6),
		asm.LoadMem(asm.R3, asm.RFP, at.Context+contextCFP, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R1), asm.Sub.Reg(asm.R2, asm.R3),
		// This word had the stack's size. From now on it has the address of the stack's end.
		asm.StoreMem(asm.RFP, at.Context+contextWords, asm.R1, asm.DWord),
		asm.StoreMem(asm.RFP, at.Frames, asm.R2, asm.DWord),
		asm.JGT.Imm(asm.R2, maxFrames, or),
		// The VM's stack has the values at one end and the control frames at the other. Copy only the values here: up
		// to the innermost frame's stack pointer, and valueSlack bytes beyond it.
		asm.Add.Imm(asm.R3, frameSP),
	)
	ins = append(ins, ReadTo(at.SP, 8)...)
	ins = append(ins,
		asm.JNE.Imm(asm.R0, 0, or),
		asm.LoadMem(asm.R1, asm.RFP, at.SP, asm.DWord),
		asm.Sub.Reg(asm.R1, asm.R6),
		asm.JGT.Imm(asm.R1, maxValues-valueSlack, or),
		asm.Add.Imm(asm.R1, valueSlack),
		asm.LoadMem(asm.R2, asm.RFP, at.Context+contextCFP, asm.DWord),
		asm.Sub.Reg(asm.R2, asm.R6),
		asm.JLE.Reg(asm.R1, asm.R2, "values fit"),
		asm.Mov.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.RFP, at.Values, asm.R1, asm.DWord).WithSymbol("values fit"),
		// Copy straight into the ring. A buffer that all threads on this CPU share would not be safe: if this thread
		// lost the CPU, another thread would overwrite it.
		asm.LoadMapPtr(asm.R1, at.Ring),
		asm.Mov.Imm(asm.R2, StackSize+at.More),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, or),
		asm.Mov.Reg(asm.R8, asm.R0),
	)
	for _, w := range []struct{ to, from int16 }{
		{stackAtNS, at.NS}, {stackLow, at.Context + contextStack}, {stackEnd, at.Context + contextWords},
		{stackCFP, at.Context + contextCFP}, {stackFrames, at.Frames}, {stackValues, at.Values},
	} {
		ins = append(ins, asm.LoadMem(asm.R1, asm.RFP, w.from, asm.DWord), asm.StoreMem(asm.R8, w.to, asm.R1, asm.DWord))
	}
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, at.TID, asm.Word), asm.StoreMem(asm.R8, stackTID, asm.R1, asm.DWord))
	if at.Running {
		ins = append(ins, asm.StoreImm(asm.R8, stackRunning, 1, asm.Word))
	}
	if at.TGID != 0 {
		ins = append(ins, asm.LoadMem(asm.R1, asm.RFP, at.TGID, asm.Word), asm.StoreMem(asm.R8, stackTGID, asm.R1, asm.Word))
	}
	ins = append(ins,
		// The kernel's verifier accepts a copy only if the instructions check its bounds immediately before it. So
		// check them again here.
		asm.LoadMem(asm.R2, asm.RFP, at.Frames, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, "discard"),
		asm.JGT.Imm(asm.R2, maxFrames, "discard"),
		asm.Mov.Reg(asm.R1, asm.R8), asm.Add.Imm(asm.R1, stackHead),
		asm.LoadMem(asm.R3, asm.RFP, at.Context+contextCFP, asm.DWord),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "discard"),
		asm.LoadMem(asm.R2, asm.RFP, at.Values, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, "discard"),
		asm.JGT.Imm(asm.R2, maxValues, "discard"),
		asm.Mov.Reg(asm.R1, asm.R8), asm.Add.Imm(asm.R1, stackHead+maxFrames),
		asm.Mov.Reg(asm.R3, asm.R6),
		asm.FnProbeReadUser.Call(),
		asm.JNE.Imm(asm.R0, 0, "discard"))
	ins = append(ins, at.Also...)
	ins = append(ins,
		asm.Mov.Reg(asm.R1, asm.R8), asm.Mov.Imm(asm.R2, NoWakeup),
		asm.FnRingbufSubmit.Call(),
		asm.Ja.Label(or),
		asm.Mov.Reg(asm.R1, asm.R8).WithSymbol("discard"), asm.Mov.Imm(asm.R2, NoWakeup),
		asm.FnRingbufDiscard.Call(),
	)
	return ins
}

// NoStack is like CopyStack, but for a thread without a Ruby stack. In its entry in the ring, all fields of the Ruby
// stack, such as CFP, are 0. If the ring has no room, the instructions jump to a label; the parameter or is its name.
// They may overwrite R8.
func NoStack(at StackPlaces, or string) asm.Instructions {
	ins := asm.Instructions{
		asm.LoadMapPtr(asm.R1, at.Ring), asm.Mov.Imm(asm.R2, StackSize+at.More), asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, or),
		asm.Mov.Reg(asm.R8, asm.R0),
		asm.LoadMem(asm.R1, asm.RFP, at.NS, asm.DWord), asm.StoreMem(asm.R8, stackAtNS, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, at.TID, asm.Word), asm.StoreMem(asm.R8, stackTID, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, at.TGID, asm.Word), asm.StoreMem(asm.R8, stackTGID, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, 0),
	}
	for _, to := range [...]int16{stackLow, stackEnd, stackCFP, stackFrames, stackValues} {
		ins = append(ins, asm.StoreMem(asm.R8, to, asm.R1, asm.DWord))
	}
	ins = append(ins, at.Also...)
	return append(ins, asm.Mov.Reg(asm.R1, asm.R8), asm.Mov.Imm(asm.R2, NoWakeup), asm.FnRingbufSubmit.Call(), asm.Ja.Label(or))
}

// Stack is the copy of a thread's stack at an instant.
type Stack struct {
	NS int64
	// TID is the thread. TGID is its process, or 0 if the program has not set it.
	TID, TGID int32
	// Low and End are the ends of the VM's stack. CFP is the address of the innermost control frame.
	Low, End, CFP attach.Address
	// Frames has the bytes from CFP to End. Values has the bytes from Low on.
	Frames, Values []byte
	// Running is true if the thread was interrupted while it ran.
	Running bool
}

// DecodeStack makes a Stack from the bytes that a program has put into the ring. The Stack is valid while b is
// unchanged.
func DecodeStack(b []byte) (Stack, error) {
	if len(b) < StackSize {
		return Stack{}, fmt.Errorf("a stack of %d bytes, not %d", len(b), StackSize)
	}
	at := func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }
	frames, values := uint64(uint32(at(stackFrames))), at(stackValues)
	if frames > maxFrames || values > maxValues {
		return Stack{}, fmt.Errorf("a stack with %d and %d bytes", frames, values)
	}
	return Stack{
		NS: int64(at(stackAtNS)), TID: int32(at(stackTID)), TGID: int32(at(stackTID) >> 32), Low: attach.Address(at(stackLow)),
		End: attach.Address(at(stackEnd)), CFP: attach.Address(at(stackCFP)), Frames: b[stackHead:][:frames], Values: b[stackHead+maxFrames:][:values],
		Running: at(stackFrames)>>32 != 0,
	}, nil
}
