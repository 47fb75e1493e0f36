// Package rivals compares other profilers with ddtop, in one run and on one process. It measures what a stack costs,
// how much the process slows down, how many lines are right and how many threads are seen.
//
// The benchmarks search for rbspy on PATH and in ~/.cargo/bin (`cargo install rbspy`). Without rbspy they leave its
// figures out, and report this. DDTOP_BENCH_BEFORE names an older ddtop, which is measured in turns with the ddtop of
// this folder. An exit code of zero is not enough: a profiler that ended early, or was still attaching, fails the
// benchmark, because it would seem cheap. In benchmarks with rounds (inRounds), a profiler that was still attaching is
// measured again, with more time. The output reports this.
//
//	go -C internal/rivals test -run '^$' -bench Rivals -timeout 0 .
//
// BenchmarkRivals measures these figures of each profiler, on a program of one busy thread and nine idle ones:
//
//	cpu-µs/stack   CPU time that the profiler takes for one stack of one thread, without start-up
//	cpu-µs/look    the same for a sample of the process: rbspy reads the busy thread's stack, ddtop all eleven
//	startup-ms     CPU time of the profiler before the first stack
//	stacks/s       stacks a second, of all threads
//	wall-slower-%  fewer turns of the program per second of wall time: median over pairs with and without the profiler
//	cpu-slower-%   the same for a second of the program's CPU time: less noisy, but misses time when it is stopped
//	lines-right-%  frames of callers whose line is the line of the call
//	impossible-%   stacks in which a function has a caller that never calls it
//	named-%        frames that have a name
//	threads-%      threads of the program that were seen
//
// The other benchmarks measure what ddtop costs:
//
//	BenchmarkCost        its own CPU time on programs of 10, 100 and 500 threads and an idle one, also with the
//	                     screen, beside a loop that only sleeps and reads as often
//	BenchmarkRequests    the cost of reading threads' requests: without requests, with 500 a second, with Rails under
//	                     load
//	BenchmarkFirstFrame  the time from exec until the screen has a row of a thread
//	BenchmarkIdle        the screen beside a process that is idle for half a minute and longer
//	BenchmarkRails       its own CPU time, requests a second and latencies of a Rails application under load, beside
//	                     rbspy's
//	BenchmarkPerRequest  by how much ddtop raises the CPU time of a request of Rails, in as many pairs as that takes
//	BenchmarkTarget      what a process pays: CPU time of a fixed piece of its work, page faults, context switches
//	BenchmarkQuality     its own CPU time at the defaults by each source, and the quality of states, waits, requests
//	                     and stacks. It fails if the quality is below leastQuality
//	BenchmarkExact       exact mode beside sampling at 1 kHz and beside none: its own CPU time, and what the process
//	                     pays
//	BenchmarkExactRails  the same for a Rails application under load: requests a second, latencies and CPU time a
//	                     request
//	BenchmarkChildren    a cluster of eight Rails workers watched at once, beside one of them
//	BenchmarkFleet       `push --children` beside fifty workers: its own CPU time, memory and descriptors
//
// Metrics are medians. If a metric has a -low and a -high, they are the median's 95 % interval. The program costtable
// makes the table of docs/cost.md (`make bench-cost`), and the tables of docs/reference/exact.md (`make bench-exact`).
// The packages rivals and costtable form a Go module of their own, because only the benchmarks need the modules that it
// requires.
package rivals
