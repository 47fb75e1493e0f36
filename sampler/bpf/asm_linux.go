package bpf

import "github.com/cilium/ebpf/asm"

// NoWakeup is the flag to add an entry to a ring buffer without waking the ring's reader (BPF_RB_NO_WAKEUP). The reader
// polls instead.
const NoWakeup = 1

// ForceWakeup is the flag to wake the ring's reader for this entry (BPF_RB_FORCE_WAKEUP).
const ForceWakeup = 2

// ReadTo emits the instructions that read size bytes of the process's memory. R3 must have the address. The bytes are
// stored on the BPF program's own stack, at the given offset (to). If the read fails, R0 is not 0, and zeros are
// stored.
func ReadTo(to int16, size int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, int32(to)), asm.Mov.Imm(asm.R2, size), asm.FnProbeReadUser.Call()}
}
