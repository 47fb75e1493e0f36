package live

import "sync"

const (
	// workEveryNS is how often records are fetched to see which threads begin something, in ns.
	workEveryNS = 12_000_000
	// slowWorkEveryNS is the same while nothing runs or waits.
	slowWorkEveryNS = 50_000_000
	// maxBeginning bounds the threads that are looked at in one tick because they have begun something.
	maxBeginning = 64
	// workCostShare is the part of the budget that looks at such threads take between two ticks, and workSaveNS for how long that is saved up, in ns.
	workCostShare, workSaveNS = 0.4, 200_000_000
)

// lookCredit bounds the CPU time of looks between two ticks.
type lookCredit struct {
	ns   float64
	atNS int64
}

// may reports whether there is time for a look. share is that of a CPU which ddtop may take. Zero means that there is no limit.
func (c *lookCredit) may(now int64, share float64) bool {
	c.ns = min(c.ns+float64(now-c.atNS)*share*workCostShare, workSaveNS*share)
	c.atNS = now
	return share == 0 || c.ns > 0
}

// spend takes what a look took.
func (c *lookCredit) spend(ns int64) { c.ns -= float64(ns) }

// Constants of recordLoad.
const (
	// recordNS is what a record costs ddtop, from the ring to the figures, in ns. Measured with 25,000 a second on a full machine.
	recordNS = 5_000
	// loadSaveNS is for how long time for records is saved up, and loadDebtNS for how long more may be taken than there is, in ns.
	loadSaveNS, loadDebtNS = 1e9, 2e9
)

// recordLoad counts what the records of all processes cost ddtop beside what it may take. It is for any goroutine.
type recordLoad struct {
	mu   sync.Mutex
	ns   float64
	atNS int64
	// of are the processes, rate is how many records a second they all made lately.
	of   int
	rate float64
}

// ownLoad is the part of one process.
type ownLoad struct {
	counted bool
	rate    float64
}

// add takes the records of a process in a span of time that ends now. share is that of a CPU which ddtop may take. Zero means that there is no
// limit.
func (l *recordLoad) add(own *ownLoad, now, spanNS int64, records uint64, share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !own.counted {
		own.counted = true
		l.of++
	}
	rise := (float64(records)*1e9/float64(spanNS) - own.rate) * min(float64(spanNS)/1e9, 1)
	own.rate += rise
	l.rate += rise
	l.ns -= float64(records) * recordNS
	if l.atNS == 0 {
		l.atNS = now - spanNS
	}
	if now > l.atNS {
		l.ns, l.atNS = min(l.ns+float64(now-l.atNS)*share, loadSaveNS*share), now
	}
}

// over reports whether records have cost too much for too long, and this process makes no fewer than the others.
func (l *recordLoad) over(own *ownLoad, share float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	const rounding = 1.01 // rate is a sum of sums
	return share != 0 && l.ns < -loadDebtNS*share && own.rate*float64(l.of)*rounding >= l.rate
}

// leave takes a process out, and forgives what it owed.
func (l *recordLoad) leave(own *ownLoad) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.counted {
		l.of--
		l.rate -= own.rate
		l.ns = max(l.ns, 0)
	}
	*own = ownLoad{}
}

// room is how many records a second one more process may make.
func (l *recordLoad) room(share float64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return share*1e9/recordNS - l.rate
}

// Constants of followAgain. A process whose threads switched too often is followed again when they have switched less often than againShare of
// what is possible for againNS, in ns. That doubles, up to mostAgainNS, each time that it was too often again within steadyNS.
const (
	againShare                     = 0.8
	againNS, mostAgainNS, steadyNS = 30_000_000_000, 480_000_000_000, 300_000_000_000
)

// followAgain decides when a process is followed again whose threads had switched too often. Times are CLOCK_MONOTONIC in ns.
type followAgain struct {
	of *switchRun // the last one that ended
	// waitNS is for how long they must switch less often, highNS when they last did not, or when following ended.
	waitNS, highNS int64
	// atNS is when the switches were counted last.
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

// is reports whether it is time. switches is how often threads have switched so far, most how often they may a second.
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

// countedNS is for how long the count of switches may stand still because it was not read again, in ns.
const countedNS = 5_000_000_000
