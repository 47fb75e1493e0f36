// Package live is the clock: it wires a live process (attach), Ruby's memory (sampler/ruby) and the kernel
// (sampler/kernel) into a sampler.Source.
//
// One goroutine on an OS thread of its own does all reading. A lock tick reads the scheduler, a stack tick all stacks
// as well. Ticks are jittered, because a fixed period would beat with the kernel's tick and with the program's own
// sleeps (docs/internals/threads.md#rubys-thread-events). A late tick is skipped, never caught up in a burst.
package live
