package bpf

import "github.com/cilium/ebpf/asm"

// NoWakeup keeps a ring from waking its reader, which polls (BPF_RB_NO_WAKEUP).
const NoWakeup = 1

// ForceWakeup has each entry of a ring wake its reader (BPF_RB_FORCE_WAKEUP).
const ForceWakeup = 2

// ReadTo reads from the address of the current process in R3 to a place on the program's stack. R0 is not 0 if that
// failed; the place holds zeros then.
func ReadTo(to int16, size int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, size), asm.FnProbeReadUser.Call()}
}
