package live

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
	// overloadAgainNS is when following is tried again that has ended because of too many records, in ns.
	overloadAgainNS = 30_000_000_000
)

// recordLoad counts what records cost ddtop beside what it may take.
type recordLoad struct {
	ns float64
	// rate is how many records a second there were lately.
	rate float64
}

// add takes the records of a span of time. share is that of a CPU which ddtop may take. Zero means that there is no limit.
func (l *recordLoad) add(spanNS int64, records uint64, share float64) {
	l.rate += (float64(records)*1e9/float64(spanNS) - l.rate) * min(float64(spanNS)/1e9, 1)
	l.ns = min(l.ns+float64(spanNS)*share-float64(records)*recordNS, loadSaveNS*share)
}

// over reports whether records have cost too much for too long.
func (l *recordLoad) over(share float64) bool { return share != 0 && l.ns < -loadDebtNS*share }
