// Package rivals measures other profilers beside ddtop, in one run and on one process: what a stack costs, by how much
// the process slows down, which lines are right and how many of the threads are seen.
//
// rbspy is looked for on PATH and in ~/.cargo/bin (`cargo install rbspy`); without it its figures are left out, and that is said.
// DDTOP_BENCH_BEFORE names an older ddtop, which is measured in turns with the one of this folder. No profiler is taken at its exit
// code: one that ended early, or was still attaching, fails the benchmark, since it would be measured as cheap; where they are measured in
// rounds (inRounds) one that was still attaching is measured again, with more time for it, and that is said.
//
//	go -C internal/rivals test -run '^$' -bench Rivals -timeout 0 .
//
// BenchmarkRivals measures of each profiler, on a program of one busy thread and nine idle ones:
//
//	cpu-µs/stack   CPU time of the profiler a stack of one thread, start-up not counted
//	cpu-µs/look    the same a look at the process, at which rbspy reads the busy thread's stack and ddtop all eleven
//	startup-ms     CPU time of the profiler before the first one
//	stacks/s       stacks a second, those of all threads counted
//	wall-slower-%  by how much fewer turns a second of wall time the program makes, as median over pairs with and without
//	cpu-slower-%   the same for a second of its CPU time: less noisy, but blind to the time it is stopped
//	lines-right-%  frames of callers whose line is the one that makes the call
//	impossible-%   stacks in which a function was called by one that never calls it
//	named-%        frames that have a name
//	threads-%      threads of the program that were seen
//
// The others measure what ddtop costs:
//
//	BenchmarkCost        its own CPU time on programs of 10, 100 and 500 threads and an idle one, with the screen, too, beside a
//	                     loop that only sleeps and reads as often
//	BenchmarkRequests    what reading for whom threads work adds to it: without requests, with 500 a second, with Rails under load
//	BenchmarkFirstFrame  the time from exec until the screen has a row of a thread
//	BenchmarkRails       its own CPU time, requests a second and latencies of a Rails application under load, rbspy's beside them
//	BenchmarkTarget      what a process pays: CPU time of a fixed piece of its work, page faults, context switches
//	BenchmarkQuality     its own CPU time at the defaults by each source, and the quality of states, waits, requests and stacks
//	BenchmarkExact       exact mode beside sampling at 1 kHz and beside none: its own CPU time, and what the process pays
//	BenchmarkExactRails  the same of a Rails application under load: requests a second, latencies and CPU time a request
//	BenchmarkChildren    a cluster of eight Rails workers watched at once, beside one of them
//
// Metrics are medians, and where they have a -low and a -high those are the median's 95 % interval. The program costtable makes
// the table of docs/cost.md (`make bench-cost`), and those of docs/reference/exact.md (`make bench-exact`). Both are a Go module of their own,
// because only the benchmarks need them.
package rivals
