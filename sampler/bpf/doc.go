// Package bpf has what all of ddtop's BPF programs need. It finds fields of the kernel's structs, and checks whether a
// machine lets ddtop load programs. It has instructions that several programs need, and reads the rings into which
// programs write. Shared has the programs that serve all followed processes.
//
// Programs are written in Go, instruction by instruction. No compiler is needed.
package bpf
