// Package live makes samples of a live process. It connects the process (attach), Ruby's memory (sampler/ruby) and the
// kernel (sampler/kernel) to a sampler.Source.
//
// One goroutine on its own OS thread, the clock, does all reading. A lock tick reads the scheduler, and a stack tick
// also reads all stacks. The intervals between ticks vary at random. Equal intervals could fall into step with the
// kernel's tick or the program's own sleeps (docs/internals/threads.md#rubys-thread-events). A tick that is late is
// skipped. It is not made up for later.
package live
