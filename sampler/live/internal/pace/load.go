package pace

import "sync"

const (
	// recordNS is the CPU time that ddtop uses for one record of a thread switch, from the kernel's ring to the
	// figures, in ns. It was measured with 30,000 records per second: 0.8 to 1.1 µs on free CPUs and on a full machine,
	// and 1.35 µs with the screen.
	recordNS = 1_500
	// loadSaveNS limits how much unused CPU time for records is saved for later, in ns. loadDebtNS is by how much the
	// CPU time of records may exceed what is allowed, in ns. If it exceeds this by more, Over returns true for the
	// processes with the most records.
	loadSaveNS, loadDebtNS = 1e9, 2e9
)

// RecordLoad compares the cost of all processes' records of thread switches with the share of a CPU that ddtop may use.
// The kernel makes a record for each interval of a thread on a CPU. Any goroutine may use a RecordLoad.
type RecordLoad struct {
	mu   sync.Mutex
	ns   float64
	atNS int64
	// The field of is the number of processes. rate is the number of records per second of all of them together.
	of   int
	rate float64
}

// OwnLoad is one process's contribution to a RecordLoad.
type OwnLoad struct {
	counted bool
	rate    float64
}

// Rate is the recent number of records per second.
func (o *OwnLoad) Rate() float64 { return o.rate }

// Add adds the records of a process in a span of time that ends now. share is the share of a CPU that ddtop may use.
// Zero means that there is no limit.
func (l *RecordLoad) Add(own *OwnLoad, now, spanNS int64, records uint64, share float64) {
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

// Over reports whether ddtop must stop recording this process's thread switches. This is so if records have cost too
// much for too long, and this process makes at least as many records as the average process.
func (l *RecordLoad) Over(own *OwnLoad, share float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	const rounding = 1.01 // needed because rate is a sum with rounding errors
	return share != 0 && l.ns < -loadDebtNS*share && own.rate*float64(l.of)*rounding >= l.rate
}

// Leave removes a process. It also clears the debt, which is the CPU time that records have used beyond the limit. The
// removed process may have caused this debt, so the other processes must not have to make up for it.
func (l *RecordLoad) Leave(own *OwnLoad) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.counted {
		l.of--
		l.rate -= own.rate
		l.ns = max(l.ns, 0)
	}
	*own = OwnLoad{}
}

// Now returns the number of processes, and the number of records per second of all of them.
func (l *RecordLoad) Now() (processes int, rate float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of, l.rate
}

// Room returns how many records per second a further process may make, so that all records together cost no more than
// share.
func (l *RecordLoad) Room(share float64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return share*1e9/recordNS - l.rate
}
