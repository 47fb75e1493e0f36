package pace

import "sync"

// FailingAfterNS is how long all ticks must fail before Lasting reports an error, in ns. Single failures are normal: a
// tick can fail because the list of threads changes while it is read.
const FailingAfterNS = 1e9

// Failing remembers since when all ticks have failed. Any goroutine may call its methods.
type Failing struct {
	mu sync.Mutex
	// sinceNS is the time of the first failed tick since the last success, CLOCK_MONOTONIC in ns. It is zero if the
	// last tick succeeded.
	sinceNS int64
	err     error
}

// Failed notes that a tick has failed, and returns the time since which all ticks have failed.
func (f *Failing) Failed(nowNS int64, err error) (sinceNS int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sinceNS == 0 {
		f.sinceNS = nowNS
	}
	f.err = err
	return f.sinceNS
}

// Succeeded notes a tick that succeeded.
func (f *Failing) Succeeded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sinceNS, f.err = 0, nil
}

// Lasting returns the time since which all ticks have failed, and the last error. err is nil unless they have failed
// for FailingAfterNS.
func (f *Failing) Lasting() (sinceNS int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sinceNS == 0 || Monotonic()-f.sinceNS < FailingAfterNS {
		return 0, nil
	}
	return f.sinceNS, f.err
}
