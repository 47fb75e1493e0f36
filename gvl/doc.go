// Package gvl has the types for the state of a Ruby process: the State of a thread with its Detail, the Interval, the
// Wait, and the Classifier, which decides states from samples. The packages below gvl make intervals and add them up.
//
// These packages read no memory, no /proc and no clock. So the same rules work for a live process, a core file and a
// recording. All times are CLOCK_MONOTONIC in ns, as in sampler.Sample.
//
// # One stream of intervals
//
// A stream.Stream cuts the time between samples into Intervals. An Interval has a thread's state from one time to
// another, its stack, and how ddtop knows the state. Its rules were checked against Ruby's exact events
// (rb_internal_thread_add_event_hook, 3.2 and later). A thread's Intervals follow each other without gap or overlap.
// The Stream also delivers each Wait for a GVL, the holders of each GVL (LockInterval), and the time of Ruby's garbage
// collector (GCInterval). A Tick has the sample itself, for data that is counted and not timed.
//
// A Consumer adds up the Intervals and the other results. It is attached to the Stream before its first sample. All
// consumers agree to the nanosecond (TestIntervalsAddUp of gvl/findings):
//
//   - account.Account: totals by thread and state, waits and the longest of them, the collector's time.
//   - account.Blame: the code that held the GVL while others waited.
//   - account.Requests: the time and the blame of requests and jobs, and of their endpoints.
//   - timeline.Timeline: states in columns of time.
//   - findings.Findings: the last seconds, which its rules use.
//   - flamegraph.Collector: weights by thread, stack and state, for pprof and the like.
//   - trace.Trace (export/trace): events in the order of time. The Firefox Profiler and Chrome's traces use them.
//   - the screen: waits by their length, a second at a time.
//
// An Interval is delivered when nothing can change it: at the next reading of the stack, or when the kernel has
// answered. A caller that needs the time since then calls Stream.Pending and Stream.Waiting. If samples have all
// changes of the GVL (sampler.Changes), the ends of intervals are exact, as Interval.ResolutionNS and Wait.Exact show.
// A stream.Chain divides one wait among the threads that held the GVL during it.
//
// measure.Measure feeds a Stream and its consumers with samples. measure.Fold adds the timeline, for a screen.
package gvl
