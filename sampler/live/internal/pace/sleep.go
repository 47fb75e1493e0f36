package pace

// longestSleepNS is the interval at which a sleeper checks whether it is still wanted, in ns. It is much less than
// letGoAfter.
const longestSleepNS = 100_000_000

// longestWokenNS is this interval for a sleeper that Wake can wake, in ns. The owner calls Wake when its work ends.
const longestWokenNS = 3_000_000_000

// Unless sleeps until CLOCK_MONOTONIC reaches ns, Wake is called, or over returns true. It calls over during sleeps
// that are longer than longestSleepNS, or longestWokenNS.
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
