package probe

import (
	"errors"
	"fmt"

	"golang.org/x/arch/x86/x86asm"
)

// maxEntryBytes limits the distance of a probe from a function's entry, in bytes. In the functions of Ruby and the C
// library, a branch comes before the instructions that are further away. So not every call would execute such a probe.
const maxEntryBytes = 40

// errNoPlace means that a function cannot have a probe, because the kernel can emulate none of the instructions at its
// beginning.
var errNoPlace = errors.New("no instruction near its entry that the kernel can emulate")

// argument is the register in which a function receives an argument (x86-64 psABI, "Parameter Passing").
type argument uint8

const (
	noArgument argument = iota
	firstArgument
	secondArgument
)

func (a argument) is(r x86asm.Reg) bool {
	switch a {
	case firstArgument:
		return r == x86asm.RDI || r == x86asm.EDI || r == x86asm.DI || r == x86asm.DIB
	case secondArgument:
		return r == x86asm.RSI || r == x86asm.ESI || r == x86asm.SI || r == x86asm.SIB
	}
	return false
}

// placer finds the instruction for a probe in the first bytes of a function. It returns the distance of the instruction
// from the function's entry, in bytes.
type placer func(code []byte, needs argument) (int, error)

// endbr64 is the instruction that marks the target of an indirect branch. Its bytes are given here, because the decoder
// does not know this instruction.
var endbr64 = [4]byte{0xf3, 0x0f, 0x1e, 0xfa}

// place returns the distance from a function's entry to an instruction for a probe. code is the beginning of the
// function. Every call must execute the instruction, and the kernel must be able to emulate it. The register of the
// argument (needs) must still be unchanged there.
//
// If the kernel cannot emulate an instruction, it needs a single step. This costs twenty times as much, about 10 µs per
// call in a virtual machine. So ddtop never puts a probe on such an instruction.
func place(code []byte, needs argument) (int, error) {
	code = code[:min(len(code), maxEntryBytes)]
	for at := 0; at < len(code); {
		if len(code)-at >= 4 && [4]byte(code[at:at+4]) == endbr64 {
			at += 4
			continue
		}
		in, err := x86asm.Decode(code[at:], 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %d bytes after it is one that is not known (% x)", errNoPlace, at, code[at:min(len(code), at+8)])
		}
		if emulated(code[at : at+in.Len]) {
			return at, nil
		}
		if !harmless(&in, needs) {
			return 0, fmt.Errorf("%w: %d bytes after it is %v", errNoPlace, at, in)
		}
		at += in.Len
	}
	return 0, errNoPlace
}

// emulated reports whether the kernel can emulate an instruction with a probe. It looks at the instruction's bytes, as
// the kernel does (branch_setup_xol_ops and push_setup_xol_ops of arch/x86/kernel/uprobes.c). The kernel emulates nop,
// push of a register, and call, jmp and jcc to a relative address. It refuses some prefixes. emulated accepts only the
// prefix of push r8 to r15.
func emulated(b []byte) bool {
	switch {
	case len(b) == 1:
		return b[0] == 0x90 || b[0] >= 0x50 && b[0] <= 0x57
	case len(b) == 2 && b[0] == 0x41:
		return b[1] >= 0x50 && b[1] <= 0x57
	case len(b) == 2:
		return b[0] == 0xeb || b[0] >= 0x70 && b[0] <= 0x7f
	case len(b) == 5:
		return b[0] == 0xe8 || b[0] == 0xe9
	case len(b) == 6:
		return b[0] == 0x0f && b[1] >= 0x80 && b[1] <= 0x8f
	}
	return false
}

// harmless reports whether the search for a place may go on after an instruction. For this, every call must go on to
// the next instruction, and the register of the argument (needs) must keep its value. harmless accepts only the
// instructions with which functions usually begin.
func harmless(in *x86asm.Inst, needs argument) bool {
	writes := true
	switch in.Op {
	case x86asm.CMP, x86asm.TEST, x86asm.NOP:
		writes = false
	case x86asm.MOV, x86asm.LEA, x86asm.XOR, x86asm.SUB, x86asm.ADD, x86asm.AND, x86asm.OR, x86asm.MOVZX, x86asm.MOVSX, x86asm.MOVSXD:
	default:
		return false
	}
	r, register := in.Args[0].(x86asm.Reg)
	return !writes || !register || !needs.is(r)
}
