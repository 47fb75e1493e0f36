package pace

import "time"

// CalmNS is how long no thread of a process must have had a CPU before ticks between two turns are left out, in ns.
// Until then a thread's native stack is read, which takes two turns, and a sample before and after them.
const CalmNS = 3_000_000_000

// UntilTurn returns the time until CLOCK_MONOTONIC is the next multiple of an interval that is at least as far away.
func UntilTurn(every, least time.Duration) time.Duration {
	d := every - time.Duration(Monotonic())%every
	if d < least {
		d += every
	}
	return d
}
