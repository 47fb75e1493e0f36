package pace

// longestSleepNS is after how long at most a sleeper asks whether it is still wanted, in ns: much less than
// letGoAfter.
const longestSleepNS = 100_000_000

// longestWokenNS is the same for a sleeper that Wake wakes, in ns. The end of its owner's work calls Wake.
const longestWokenNS = 3_000_000_000

// Unless sleeps until CLOCK_MONOTONIC reaches ns, Wake is called, or over is true: a sleep that is longer than
// longestSleepNS, or longestWokenNS, asks.
func (z *Sleeper) Unless(ns int64, over func() bool) {
	longest := int64(longestSleepNS)
	if z.Wakes() {
		longest = longestWokenNS
	}
	for {
		now := Monotonic()
		if ns-now <= longest {
			z.Until(ns)
			return
		}
		if z.Until(now+longest) || over() {
			return
		}
	}
}
