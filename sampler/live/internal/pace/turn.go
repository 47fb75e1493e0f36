package pace

import "time"

// UntilTurn returns the time until CLOCK_MONOTONIC is the next multiple of an interval that is at least as far away.
func UntilTurn(every, least time.Duration) time.Duration {
	d := every - time.Duration(Monotonic())%every
	if d < least {
		d += every
	}
	return d
}
