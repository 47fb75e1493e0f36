// Package rivals measures other profilers beside ddtop, in one run and on one process: what a stack costs, by how much
// the process slows down, which lines are right and how many of the threads are seen.
//
// The benchmarks need rbspy on PATH (`cargo install rbspy`); without it they are skipped, and say so:
//
//	go test -run '^$' -bench Rivals ./internal/rivals
//
// What is measured of each profiler, on a program of one busy thread and nine idle ones:
//
//	cpu-µs/stack   CPU time of the profiler a stack of one thread, start-up not counted
//	startup-ms     CPU time of the profiler before the first one
//	stacks/s       stacks a second, those of all threads counted
//	wall-slower-%  by how much fewer turns a second of wall time the program makes, as median over pairs with and without
//	cpu-slower-%   the same for a second of its CPU time: less noisy, but blind to the time it is stopped
//	lines-right-%  frames of callers whose line is the one that makes the call
//	impossible-%   stacks in which a function was called by one that never calls it
//	named-%        frames that have a name
//	threads-%      threads of the program that were seen
//
// BenchmarkCost measures what ddtop itself uses of a CPU on 10 to 500 threads, beside a loop that only sleeps and reads;
// BenchmarkRails what it costs a Rails application under load, in requests a second, too.
package rivals
