package pace

// longestSleepNS is the interval at which a goroutine in a long sleep checks whether its work has ended, in ns. It is
// much less than the time for which ddtop waits for the end of this work (apart.LetGoAfter).
const longestSleepNS = 100_000_000

// longestWokenNS replaces longestSleepNS if Wake can end the sleep, in ns. It can be longer, because the owner calls
// Wake when the work ends.
const longestWokenNS = 3_000_000_000

// Unless sleeps until CLOCK_MONOTONIC reaches ns, or Wake is called, or the function over returns true. It calls over
// about every longestSleepNS, or longestWokenNS if Wake can end the sleep.
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
