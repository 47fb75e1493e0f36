package pace

import "time"

// CalmNS is how long no thread of a process must have had a CPU, in ns. After that, ddtop samples the process only when
// it reads the slow counters. Reading a thread's native stack takes two of these turns, and a sample before and after.
const CalmNS = 3_000_000_000

// UntilTurn returns the time until CLOCK_MONOTONIC is a multiple of every. The result is not below least.
func UntilTurn(every, least time.Duration) time.Duration {
	d := every - time.Duration(Monotonic())%every
	if d < least {
		d += every
	}
	return d
}
