package pace

import "time"

// CalmNS is how long no thread of a process must have had a CPU before ddtop samples it more rarely, in ns. After that,
// ddtop samples the process only when it reads the slow counters. In this time ddtop can read a thread's native stack,
// which needs two readings of these counters, and a sample before and after them.
const CalmNS = 3_000_000_000

// UntilTurn returns the time until CLOCK_MONOTONIC is a multiple of every. The result is not below least.
func UntilTurn(every, least time.Duration) time.Duration {
	d := every - time.Duration(Monotonic())%every
	if d < least {
		d += every
	}
	return d
}
