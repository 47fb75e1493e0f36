package pace

import "time"

// CalmNS is how long no thread of a process must have had a CPU before ddtop samples the process more rarely, in ns.
// From then on, ddtop takes a sample only when it reads the process's slow counters. CalmNS is long enough to read a
// thread's native stack, which needs two readings of these counters, and a sample before and after them.
const CalmNS = 3_000_000_000

// UntilTurn returns how long it takes until CLOCK_MONOTONIC is a multiple of every. The result is not smaller than the
// parameter least.
func UntilTurn(every, least time.Duration) time.Duration {
	d := every - time.Duration(Monotonic())%every
	if d < least {
		d += every
	}
	return d
}
