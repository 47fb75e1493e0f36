package probe

import (
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/ddtop/ddtop/attach"
)

// instructionSet has everything about a kind of machine that exact mode needs.
type instructionSet struct {
	// goarch is Go's name of the machine (runtime.GOARCH). machine is its name in attach.Module.Machine.
	goarch, machine string
	// untried is true if exact mode has never run on a processor of this kind. Then exact mode runs only if
	// Target.Untried is set.
	untried bool
	// first and second are the offsets of a function's first and second argument in the saved registers of a thread at
	// the probe, in bytes.
	first, second int16
	// threadPointer are the names of the struct members that lead from struct task_struct to the thread pointer. The
	// kernel saves the thread pointer there when the task loses its CPU.
	threadPointer []string
	// breakpoint is the instruction that the kernel writes over the beginning of a probed instruction.
	breakpoint []byte
	// entryBytes is the largest distance of a probe from the first byte of a function, in bytes.
	entryBytes int
	// relocations are the types of relocations with which the dynamic linker stores a function's address in a word.
	relocations []uint32
	// calls finds the calls of functions in code (see callsIn).
	calls func(code []attach.CodeSection, slots map[uint64]int, functions int) ([][]uint64, error)
}

// x86 describes x86-64. The saved registers are in struct pt_regs (arch/x86/include/asm/ptrace.h: di at 112, si at
// 104). The breakpoint is the instruction int3.
func x86() instructionSet {
	return instructionSet{
		goarch: "amd64", machine: "x86_64", first: 112, second: 104, threadPointer: []string{"thread", "fsbase"},
		breakpoint: []byte{0xcc}, entryBytes: maxEntryBytes, calls: callsIn,
		relocations: []uint32{uint32(elf.R_X86_64_JMP_SLOT), uint32(elf.R_X86_64_GLOB_DAT), uint32(elf.R_X86_64_64)},
	}
}

// arm64 describes aarch64. A BPF program for a probe sees struct pt_regs as struct user_pt_regs, which begins with
// the general registers (arch/arm64/include/uapi/asm/ptrace.h, bpf_perf_event.h). tpidr_el0 is in thread.uw
// (asm/processor.h). The breakpoint is "brk #5" (asm/brk-imm.h, UPROBES_BRK_IMM).
func arm64() instructionSet {
	const brk = 0xd4200000 | 5<<5
	return instructionSet{
		goarch: "arm64", machine: "aarch64", untried: true, first: 0, second: 8, threadPointer: []string{"thread", "uw", "tp_value"},
		breakpoint: binary.LittleEndian.AppendUint32(nil, brk), entryBytes: maxEntryBytesARM, calls: callsInARM,
		relocations: []uint32{uint32(elf.R_AARCH64_JUMP_SLOT), uint32(elf.R_AARCH64_GLOB_DAT), uint32(elf.R_AARCH64_ABS64)},
	}
}

// instructionSetOf finds an instruction set by runtime.GOARCH or by attach.Module.Machine.
func instructionSetOf(name string) (instructionSet, bool) {
	all := []instructionSet{x86(), arm64()}
	i := slices.IndexFunc(all, func(s instructionSet) bool { return s.goarch == name || s.machine == name })
	if i < 0 {
		return instructionSet{}, false
	}
	return all[i], true
}
