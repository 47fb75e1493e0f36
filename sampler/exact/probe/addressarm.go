package probe

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/arch/arm64/arm64asm"
)

// maxEntryBytesARM is maxEntryBytes for aarch64. It is larger, because functions on aarch64 first save more registers,
// two with each instruction of 4 bytes.
const maxEntryBytesARM = 64

// onARM reports whether r is the argument's register, or its lower half (AAPCS64, "Parameter passing").
func (a argument) onARM(r arm64asm.Reg) bool {
	switch a {
	case firstArgument:
		return r == arm64asm.X0 || r == arm64asm.W0
	case secondArgument:
		return r == arm64asm.X1 || r == arm64asm.W1
	}
	return false
}

// placeARM is like place, but for aarch64. The kernel simulates some instructions. Of all others, it makes a copy and
// runs the copy as a single step. By published measurements, a single step costs twice as much as a simulation. Its
// cost in a virtual machine is not known, so ddtop never puts a probe on such an instruction.
func placeARM(code []byte, needs argument) (int, error) {
	code = code[:min(len(code), maxEntryBytesARM)]
	for at := 0; at+4 <= len(code); at += 4 {
		word := binary.LittleEndian.Uint32(code[at:])
		if simulated(word) {
			return at, nil
		}
		if isHint(word) { // hints mark targets of indirect branches, sign the return address, or do nothing
			continue
		}
		in, err := arm64asm.Decode(code[at : at+4])
		if err != nil {
			return 0, fmt.Errorf("%w: %d bytes after it is one that is not known (%#08x)", errNoPlace, at, word)
		}
		if !harmlessARM(&in, needs) {
			return 0, fmt.Errorf("%w: %d bytes after it is %v", errNoPlace, at, in)
		}
	}
	return 0, errNoPlace
}

// simulated reports whether the kernel simulates an instruction with a probe. It looks at the instruction's bits, as
// the kernel does (arm_probe_decode_insn of arch/arm64/kernel/probes/decode-insn.c). It accepts adr, adrp, b, bl,
// b.cond, cbz, cbnz, tbz and tbnz. It refuses br, blr and ret, which end functions, and hints, which only newer kernels
// simulate. It also refuses loads of a literal, which older kernels simulate wrongly.
func simulated(word uint32) bool {
	return word&0x1f000000 == 0x10000000 || // adr, adrp
		isBranch(word) || isConditional(word) || isCompare(word) || isTest(word)
}

// isBranch and the functions below it recognize the branches to a relative address: b and bl, b.cond, cbz and cbnz,
// tbz and tbnz.
func isBranch(word uint32) bool      { return word&0x7c000000 == 0x14000000 }
func isConditional(word uint32) bool { return word&0xff000010 == 0x54000000 }
func isCompare(word uint32) bool     { return word&0x7e000000 == 0x34000000 }
func isTest(word uint32) bool        { return word&0x7e000000 == 0x36000000 }

// isHint reports whether an instruction is a hint, for example bti or paciasp. Older processors treat hints as nop.
// No hint changes an argument.
func isHint(word uint32) bool { return word&0xfffff01f == 0xd503201f }

// harmlessARM is like harmless, but for aarch64. It refuses exclusive loads, because a probe between such a load and
// its store would make the store fail.
func harmlessARM(in *arm64asm.Inst, needs argument) bool {
	written := 1 // how many of the first operands the instruction writes
	switch in.Op {
	case arm64asm.CMP, arm64asm.CMN, arm64asm.TST, arm64asm.STP, arm64asm.STR, arm64asm.STRB, arm64asm.STRH, arm64asm.STUR, arm64asm.STURB, arm64asm.STURH:
		written = 0
	case arm64asm.LDP, arm64asm.LDPSW:
		written = 2
	case arm64asm.MOV, arm64asm.MOVZ, arm64asm.MOVN, arm64asm.MOVK, arm64asm.MVN, arm64asm.NEG,
		arm64asm.ADD, arm64asm.ADDS, arm64asm.SUB, arm64asm.SUBS, arm64asm.AND, arm64asm.ANDS, arm64asm.ORR, arm64asm.EOR, arm64asm.MUL, arm64asm.MADD,
		arm64asm.LSL, arm64asm.LSR, arm64asm.ASR, arm64asm.UBFX, arm64asm.UBFIZ, arm64asm.SXTW, arm64asm.CSEL, arm64asm.CSET, arm64asm.MRS,
		arm64asm.LDR, arm64asm.LDRB, arm64asm.LDRH, arm64asm.LDRSW, arm64asm.LDUR, arm64asm.LDURB, arm64asm.LDURH:
	default:
		return false
	}
	for i, arg := range in.Args {
		switch arg := arg.(type) {
		case arm64asm.Reg:
			if i < written && needs.onARM(arg) {
				return false
			}
		case arm64asm.RegSP:
			if i < written && needs.onARM(arm64asm.Reg(arg)) {
				return false
			}
		case arm64asm.MemImmediate:
			// the instruction also changes the base register
			if arg.Mode != arm64asm.AddrOffset && needs.onARM(arm64asm.Reg(arg.Base)) {
				return false
			}
		}
	}
	return true
}
