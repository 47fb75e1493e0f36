// Package gvl has the words in which the state of a Ruby process is told: the state of a thread with its detail, the Interval, the Wait, and the
// Classifier, which decides states from the evidence of samples. The packages below it make intervals and add them up.
//
// They are pure: they read no memory, no /proc and no clock, so the same rules serve a live process, a core file and a
// recording, and each is tested without a process. All times are CLOCK_MONOTONIC in ns, as in sampler.Sample.
//
// # One stream of intervals
//
// The Classifier decides states. A stream.Stream cuts the time between samples into Intervals: in which state a thread was from when to
// when, with which stack, and how that is known. Its rules were measured against Ruby's exact events
// (rb_internal_thread_add_event_hook, 3.2 and later), and are nowhere else: half-and-half between two samples, gaps, threads
// that come and go, answers of the kernel that come late. A thread's Intervals follow each other without a gap and without
// overlap. Beside them a Stream says how long each Wait for a GVL was, who held it meanwhile (LockInterval), and when the
// collector ran (GCInterval); a Tick has the sample itself, for what is counted rather than timed.
//
// A Consumer adds them up. It is attached to the Stream before its first sample. All consumers say the same to the nanosecond
// (TestIntervalsAddUp of gvl/findings):
//
//   - account.Account: totals by thread and state, waits and the longest of them, the collector's time.
//   - account.Blame: whose code held the GVL while others waited.
//   - account.Requests: the time and the blame of requests and jobs, and of their endpoints, by whom threads work for.
//   - timeline.Timeline: states in columns of time.
//   - findings.Findings: the last seconds, for its rules. What they look at in single samples is where threads are, how
//     often they move and whose turn it is; no time is told by that.
//   - flamegraph.Collector: weights by thread, stack and state; pprof and the like are made of them.
//   - trace.Trace (export/trace): what happened when, for the Firefox Profiler and Chrome's traces.
//   - the screen: waits by their length, a second at a time.
//
// An Interval comes when nothing can change it any more: at the next reading of the stack, or when the kernel has answered.
// What is to be told before that asks Stream.Pending, for time as it stands now, and Stream.Waiting. Where samples have all changes of
// the GVL (sampler.Changes) edges are exact, which Interval.ResolutionNS and Wait.Exact say; a stream.Chain tells what one wait consisted of.
//
// measure.Measure bundles a Stream and its consumers behind one Feed; measure.Fold adds the timeline and a lock, for a screen.
package gvl
