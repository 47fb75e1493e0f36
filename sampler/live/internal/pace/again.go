package pace

// These constants are for a process whose threads switched so often that ddtop stopped following their switches. ddtop
// follows them again if their rate was below againShare of the limit for againNS, in ns. If ddtop must stop again
// within steadyNS, this wait doubles, up to mostAgainNS.
const (
	againShare                     = 0.8
	againNS, mostAgainNS, steadyNS = 30_000_000_000, 480_000_000_000, 300_000_000_000
)

// Again decides when ddtop follows the thread switches of a process again. ddtop stops following if they come too
// often. Times are CLOCK_MONOTONIC in ns.
type Again struct {
	// waitNS is how long the threads must switch rarely enough before ddtop follows them again, in ns. highNS is when
	// they last switched too often, or when ddtop stopped following them.
	waitNS, highNS int64
	// atNS is when the switches were last counted, and switches is their number then.
	atNS, switches int64
}

// Ended records that ddtop stops following the process now. lastedNS is how long it had followed it.
func (f *Again) Ended(now, lastedNS int64) {
	if f.waitNS *= 2; lastedNS > steadyNS {
		f.waitNS = 0
	}
	f.waitNS = min(max(f.waitNS, againNS), mostAgainNS)
	f.highNS, f.atNS = now, 0
}

// Is reports whether to follow the process again. switches is the number of its thread switches so far. most is the
// number of switches per second at which ddtop would stop following.
func (f *Again) Is(now, switches int64, most float64) bool {
	if f.atNS != 0 && switches == f.switches && now-f.atNS < countedNS {
		return now-f.highNS >= f.waitNS // the switches were not counted again since
	}
	if f.atNS != 0 && float64(switches-f.switches)*1e9 > againShare*most*float64(now-f.atNS) || most <= 0 {
		f.highNS = now
	}
	f.atNS, f.switches = now, switches
	return now-f.highNS >= f.waitNS
}

// countedNS decides what an unchanged count of switches means. For this long, in ns, Is assumes that the caller has not
// read the counter again. After that, Is concludes that the threads have not switched.
const countedNS = 5_000_000_000
