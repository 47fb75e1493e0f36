package live

// longestSleepNS is for how long it sleeps at most without a look whether that is wanted still, in ns: much less than letGoAfter.
const longestSleepNS = 100_000_000

// unless sleeps until CLOCK_MONOTONIC reaches ns, or over is true: a sleep longer than longestSleepNS asks.
func (z *sleeper) unless(ns int64, over func() bool) {
	for {
		now := monotonic()
		if ns-now <= longestSleepNS {
			z.until(ns)
			return
		}
		z.until(now + longestSleepNS)
		if over() {
			return
		}
	}
}
