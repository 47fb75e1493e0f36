// Package bpf has what all of ddtop's BPF programs need. It finds fields of the kernel's structs, and checks whether a
// machine lets ddtop load programs. It has instructions that several programs need. It reads the ring buffers into
// which programs write. The type Shared holds programs that serve all processes that ddtop follows.
//
// ddtop's programs are written in Go, instruction by instruction. So no compiler is needed.
package bpf
