package pace

// longestSleepNS is after how long at most a sleeper asks whether it is still wanted, in ns: much less than
// letGoAfter.
const longestSleepNS = 100_000_000

// Unless sleeps until CLOCK_MONOTONIC reaches ns, or over is true: a sleep longer than longestSleepNS asks.
func (z *Sleeper) Unless(ns int64, over func() bool) {
	for {
		now := Monotonic()
		if ns-now <= longestSleepNS {
			z.Until(ns)
			return
		}
		z.Until(now + longestSleepNS)
		if over() {
			return
		}
	}
}
