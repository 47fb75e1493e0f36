package live

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

const (
	// quietNS is a time in ns. If no record has come for this time, ddtop fetches records less often.
	quietNS = 1_000_000_000
	// manyWorkEveryNS is how often records are fetched if more than manyRuns processes are followed, in ns. The
	// interval grows to restWorkEveryNS under two conditions: the rings have room, and the processes with new records
	// serve no requests.
	manyRuns, manyWorkEveryNS, restWorkEveryNS = 8, 25_000_000, 100_000_000
)

// fetcher fetches the records of all followed processes, if there are several. Without it, the clock (sampling loop) of
// each process would have to wake up for this, even if the process is idle. The fetcher wakes a process's clock only if
// a thread of the process has begun work.
type fetcher struct {
	mu      sync.Mutex
	runs    []*switchRun
	several atomic.Bool
	// running is true while a goroutine runs that fetches the records.
	running bool
}

// fetching is the fetcher of all Sources, because they share one ring.
var fetching fetcher

// is reports whether the fetcher fetches the records, or will soon begin to. If it returns false, each clock fetches
// the records of its own process.
func (f *fetcher) is() bool { return f.several.Load() }

func (f *fetcher) join(x *switchRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !x.on() {
		return // following has ended already
	}
	f.runs = append(f.runs, x)
	f.several.Store(len(f.runs) > 1)
	if f.is() && !f.running {
		f.running = true
		attach.OnOwnThread(f.run)
	}
}

// leave removes a process. Any goroutine may call it. If one process remains, its clock fetches the records.
func (f *fetcher) leave(x *switchRun) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// The list is copied before the change, because the goroutine of the method run may still read the old list.
	f.runs = slices.DeleteFunc(slices.Clone(f.runs), func(o *switchRun) bool { return o == x })
	f.several.Store(len(f.runs) > 1)
}

// of returns the followed processes, or nil if the fetcher must end because there is at most one.
func (f *fetcher) of() []*switchRun {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.is() {
		f.running = false
		return nil
	}
	return f.runs
}

func (f *fetcher) run() {
	pace.RaisePriority()
	sleep := pace.NewSleeper(false)
	defer sleep.Close()
	last := pace.Monotonic()
	served := last
	for runs := f.of(); runs != nil; runs = f.of() {
		now := pace.Monotonic()
		had, soon := fetchEach(runs, now)
		if had {
			last = now
		}
		if soon {
			served = now
		}
		every := int64(workEveryNS)
		switch {
		case now-last > quietNS:
			every = slowWorkEveryNS
		case len(runs) > manyRuns && now-served > quietNS:
			every = restWorkEveryNS
		case len(runs) > manyRuns:
			every = manyWorkEveryNS
		}
		sleep.Until(now + every)
	}
}

// fetchEach fetches the records of all processes. The result had is true if there were any records. The result soon is
// true if the next fetch must come soon. This is so if the rings fill up, or if a process with records serves requests.
func fetchEach(runs []*switchRun, now int64) (had, soon bool) {
	for _, x := range runs {
		taken, crowded := x.empty()
		soon = soon || crowded
		if taken {
			break
		}
	}
	for _, x := range runs {
		if x.programs == nil || !x.programs.Waiting() {
			continue
		}
		fetched, serves := x.fetch(now)
		had, soon = had || fetched, soon || serves
	}
	return had, soon
}

// empty takes all records from the shared ring, unless x is locked or has ended. crowded is true if the ring fills up.
func (x *switchRun) empty() (taken, crowded bool) {
	if !x.mu.TryLock() {
		return false, false
	}
	defer x.mu.Unlock()
	if x.closed || !x.on() {
		return false, false
	}
	crowded = x.programs.Crowded()
	return x.programs.Fetch() == nil, crowded // the method look reports the error
}

// fetch takes the waiting records of one process. It wakes the process's clock if a thread has begun work or a stack
// needs a name. The result had is false if following has ended. The result serves is true if the process has served a
// request since ddtop began to follow it.
func (x *switchRun) fetch(now int64) (had, serves bool) {
	if !x.mu.TryLock() {
		return true, false // another goroutine has the lock, and fetches the records
	}
	defer x.mu.Unlock()
	if x.closed || !x.on() {
		return false, false
	}
	if x.drain(now) == nil && (x.works.Begun() || x.requests.Begun() || x.stacks.Asked()) {
		wakeClock(x.source)
	}
	return true, x.works.Served()
}

// served reports whether a thread of the process has served a request or a job since ddtop began to follow it. The
// clock calls it.
func (x *switchRun) served() bool { return x.works.Served() }
