// Package gvl turns the evidence of samples into what a person wants to know: the state of every thread, who holds
// the Global VM Lock (GVL) and who waits for it, for how long, behind whose code, and what is wrong.
//
// It is pure: it reads no memory, no /proc and no clock, so the same rules serve a live process, a core file and a
// recording, and each is tested without a process. All times are CLOCK_MONOTONIC in ns, as in sampler.Sample.
//
// Classifier decides states. Stream cuts the time between samples into intervals, by the rules that were measured against
// Ruby's exact events (rb_internal_thread_add_event_hook, 3.2 and later): in which state a thread was from when to when and
// with which stack, who held the GVL meanwhile, how long each wait was. Account, Timeline, Blame, WaitList and Findings are
// its consumers, as are the weights of flamegraph and the files of export: they add intervals up and do not cut time
// themselves, so that all say the same to the nanosecond. Fold bundles what a screen needs behind one Feed.
package gvl
