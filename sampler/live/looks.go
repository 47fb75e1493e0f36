package live

const (
	// workEveryNS is the interval at which records are fetched to find threads that begin something, in ns.
	workEveryNS = 12_000_000
	// slowWorkEveryNS is workEveryNS while nothing runs or waits.
	slowWorkEveryNS = 50_000_000
	// stillEveryNS is the interval between samples of an idle process in which no thread has had a CPU, in ns. They
	// have what other threads than Ruby's change.
	stillEveryNS = 1_000_000_000
	// mostBells is how often in a row a record of an idle process wakes the clock at once, and bellsPerSecond how often
	// on average. A request makes some four records.
	mostBells, bellsPerSecond = 10, 20
	// namesLateNS is how long copied stacks wait for the next tick to be named, in ns. Records wait for a name for
	// stacknames.WithinNS. A fleet's ticks are seconds apart.
	namesLateNS = 100_000_000
	// maxBeginning bounds the threads that are read in one tick because they have begun something.
	maxBeginning = 64
)

// Constants of followAgain. A process whose threads switched too often is followed again after they have switched
// less often than againShare of the possible rate for againNS, in ns. That time doubles, up to mostAgainNS, if they
// switch too often again within steadyNS.
const (
	againShare                     = 0.8
	againNS, mostAgainNS, steadyNS = 30_000_000_000, 480_000_000_000, 300_000_000_000
)

// bells bounds how often the records of an idle process wake its clock.
type bells struct {
	left float64
	atNS int64
}

// take reports whether the next record may wake the clock.
func (b *bells) take(now int64) bool {
	b.left = min(b.left+float64(now-b.atNS)*bellsPerSecond/1e9, mostBells)
	b.atNS = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// followAgain says when to follow a process again whose threads had switched too often. Times are CLOCK_MONOTONIC in
// ns.
type followAgain struct {
	of *switchRun // the last one that ended
	// waitNS is how long the threads must switch less often. highNS is when they last did not, or when following
	// ended.
	waitNS, highNS int64
	// atNS is when the switches were last counted.
	atNS, switches int64
}

// ended notes that following ended now, after it had lasted for some time.
func (f *followAgain) ended(now, lastedNS int64) {
	if f.waitNS *= 2; lastedNS > steadyNS {
		f.waitNS = 0
	}
	f.waitNS = min(max(f.waitNS, againNS), mostAgainNS)
	f.highNS, f.atNS = now, 0
}

// is reports whether it is time. switches is the number of switches so far, most the number allowed per second.
func (f *followAgain) is(now, switches int64, most float64) bool {
	if f.atNS != 0 && switches == f.switches && now-f.atNS < countedNS {
		return now-f.highNS >= f.waitNS // they were not counted again
	}
	if f.atNS != 0 && float64(switches-f.switches)*1e9 > againShare*most*float64(now-f.atNS) || most <= 0 {
		f.highNS = now
	}
	f.atNS, f.switches = now, switches
	return now-f.highNS >= f.waitNS
}

// countedNS is how long the count of switches may stay the same because it was not read again, in ns.
const countedNS = 5_000_000_000
