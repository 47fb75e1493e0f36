package bpf

import "github.com/cilium/ebpf/asm"

// NoWakeup adds an entry to a ring without waking its reader, which polls (BPF_RB_NO_WAKEUP).
const NoWakeup = 1

// ForceWakeup makes each entry of a ring wake its reader (BPF_RB_FORCE_WAKEUP).
const ForceWakeup = 2

// ReadTo emits the instructions that read from the process's address in R3 to an offset on the program's stack. If
// this fails, R0 is not 0, and zeros are stored.
func ReadTo(to int16, size int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, size), asm.FnProbeReadUser.Call()}
}
