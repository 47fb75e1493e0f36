// Package bpf has what all of ddtop's BPF programs need. It finds the kernel's fields, checks whether a machine lets
// ddtop load programs, has parts of programs, and reads the kernel's rings. Shared has the programs that all followed
// processes share.
//
// Programs are written in Go, instruction by instruction. No compiler is needed.
package bpf
