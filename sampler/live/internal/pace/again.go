package pace

// These constants are for a process whose threads switched so often that ddtop stopped recording their switches. ddtop
// records them again after the rate was below againShare of the limit for againNS, in ns. If ddtop must stop again
// within steadyNS, this wait doubles, up to mostAgainNS.
const (
	againShare                     = 0.8
	againNS, mostAgainNS, steadyNS = 30_000_000_000, 480_000_000_000, 300_000_000_000
)

// Again decides when ddtop follows the thread switches of a process again, after it has stopped because the threads
// switched too often. Times are CLOCK_MONOTONIC in ns.
type Again struct {
	// waitNS is how long the rate of switches must stay low before ddtop follows them again, in ns. highNS is when the
	// threads last switched too often, or when ddtop stopped following them.
	waitNS, highNS int64
	// atNS is when the switches were last counted, and switches is their number then.
	atNS, switches int64
}

// Ended records that ddtop stops following the process's thread switches now. lastedNS is how long it had followed
// them, in ns.
func (f *Again) Ended(now, lastedNS int64) {
	if f.waitNS *= 2; lastedNS > steadyNS {
		f.waitNS = 0
	}
	f.waitNS = min(max(f.waitNS, againNS), mostAgainNS)
	f.highNS, f.atNS = now, 0
}

// Is reports whether ddtop can follow the thread switches of the process again. switches is the number of its switches
// so far. The parameter most is the number of switches per second at which ddtop would stop following them.
func (f *Again) Is(now, switches int64, most float64) bool {
	if f.atNS != 0 && switches == f.switches && now-f.atNS < countedNS {
		return now-f.highNS >= f.waitNS // the caller has not counted the switches again since the last call
	}
	if f.atNS != 0 && float64(switches-f.switches)*1e9 > againShare*most*float64(now-f.atNS) || most <= 0 {
		f.highNS = now
	}
	f.atNS, f.switches = now, switches
	return now-f.highNS >= f.waitNS
}

// countedNS applies if the count of switches is the same as at the last call of Is. Within countedNS, in ns, Is assumes
// that the caller has not read the counter again. After countedNS, Is concludes that the threads have not switched.
const countedNS = 5_000_000_000
