// Package gvl turns the evidence of samples into what a person wants to know: the state of every thread, who holds
// the Global VM Lock (GVL) and who waits for it, for how long, behind whose code, and what is wrong.
//
// It is pure: it reads no memory, no /proc and no clock, so the same rules serve a live process, a core file and a
// recording, and each is tested without a process. All times are CLOCK_MONOTONIC in ns, as in sampler.Sample.
//
// Classifier decides states; Account, Timeline, Blame and Findings fold a stream of classified samples; Fold bundles
// them behind one Feed. Between two samples half of the time is given to the earlier state and half to the later one,
// which is how the rules were measured against Ruby's exact events (docs/internals/threads.md#rubys-thread-events).
package gvl
