// Package bpf has what all of ddtop's BPF programs need. It finds fields of the kernel's structs, and checks whether
// ddtop may load programs on a machine. It has instructions that several programs need. It reads the ring buffers into
// which programs write. With the type Shared, all processes that ddtop follows use the same programs.
//
// ddtop's programs are written in Go, instruction by instruction. So no compiler is needed.
package bpf
