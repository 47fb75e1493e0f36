// Package bpf holds what all of ddtop's BPF programs need: where the kernel keeps its fields, whether a machine lets
// ddtop load programs, pieces of programs, and a reader of the kernel's rings. Shared has the programs that all
// followed processes share.
//
// Programs are written in Go, instruction by instruction. No compiler is needed.
package bpf
