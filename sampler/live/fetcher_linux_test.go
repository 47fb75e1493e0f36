package live

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/switches"
)

// TestFetcherRuns: while several processes are followed, one goroutine must fetch the records of all. While one process
// or none is followed, no such goroutine may run.
func TestFetcherRuns(t *testing.T) {
	var f fetcher
	running := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.running
	}
	one, two := &switchRun{closed: true}, &switchRun{closed: true} // nothing is fetched from closed runs
	for range 3 {
		f.join(one)
		if f.is() || running() {
			t.Fatal("it fetches for one process")
		}
		f.join(two)
		if !f.is() || !running() {
			t.Fatal("it does not fetch for two processes")
		}
		f.leave(one)
		f.leave(two)
		if f.is() {
			t.Fatal("it still is to fetch when nobody is left")
		}
		for running() {
			runtime.Gosched()
		}
	}
	ended := &switchRun{}
	ended.toNS.Store(1)
	f.join(one)
	if f.join(ended); f.is() {
		t.Error("it fetches for one that has ended")
	}
}

// seenFeed notes when the last record came. It also notes whether one of the records was the end of the thread tid.
type seenFeed struct {
	switchFeed
	tid    int32
	ended  atomic.Bool
	lastNS atomic.Int64
}

func (f *seenFeed) Drain(emit func(*switches.Record)) error {
	return f.switchFeed.Drain(func(r *switches.Record) {
		if r.Kind == switches.Exited && r.TID == f.tid {
			f.ended.Store(true)
		}
		f.lastNS.Store(max(f.lastNS.Load(), r.NS))
		emit(r)
	})
}

// fetchedTwo starts two processes and follows them, but no clock samples them. The processes sleep briefly again and
// again, and exit at the end of standard input.
func fetchedTwo(t *testing.T) (p [2]*rubytest.Process, runs [2]*switchRun, feeds [2]*seenFeed) {
	t.Helper()
	if err := CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	for i := range p {
		const sleeps = `Thread.new { loop { sleep 0.001 } }; puts 1; $stdout.flush; $stdin.gets; exit!`
		p[i] = rubytest.One(t).Start(t, sleeps, rubytest.Options{})
		p[i].Line(t)
		s, err := Open(t.Context(), p[i].PID, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if err := s.Switches(t.Context()); err != nil {
			t.Fatal(err)
		}
		x := s.switches.now.Load()
		x.mu.Lock()
		feeds[i] = &seenFeed{switchFeed: x.feed, tid: int32(p[i].PID)}
		x.feed, runs[i] = feeds[i], x
		x.mu.Unlock()
	}
	if !fetching.is() {
		t.Fatal("two processes are followed, and no thread fetches for both")
	}
	return p, runs, feeds
}

// TestFetcherWaitsForNobody: another goroutine has locked the records of one process. Meanwhile, ddtop must still fetch
// the records of other processes. It must fetch the records of the locked process after the lock is released.
func TestFetcherWaitsForNobody(t *testing.T) {
	_, runs, feeds := fetchedTwo(t)
	later := func(i int, of int64) {
		t.Helper()
		for deadline := time.Now().Add(rubytest.Timeout); feeds[i].lastNS.Load() <= of; {
			fetched := make(chan struct{})
			go func() {
				defer close(fetched)
				fetchEach(runs[:], pace.Monotonic())
			}()
			select {
			case <-fetched:
			case <-time.After(time.Until(deadline)):
				t.Fatal("the fetcher waits for a process whose records another goroutine has")
			}
			if time.Now().After(deadline) {
				t.Fatalf("no record of process %d came", i)
			}
		}
	}
	for range 3 {
		runs[0].mu.Lock()
		locked := pace.Monotonic()
		before := feeds[0].lastNS.Load()
		later(1, locked)
		if feeds[0].lastNS.Load() != before {
			t.Error("records of a process came while another goroutine had them")
		}
		unlocked := feeds[1].lastNS.Load()
		runs[0].mu.Unlock()
		later(0, unlocked)
	}
	for i, x := range runs {
		if r, err := x.close(); err != nil || r.Lost != 0 {
			t.Errorf("process %d: %+v, %v", i, r, err)
		}
	}
}

// TestFetcherEndOfAProcess: when one of two followed processes ends, ddtop must pass on the record of its end before it
// stops following it. It must continue to follow the other process.
func TestFetcherEndOfAProcess(t *testing.T) {
	p, runs, feeds := fetchedTwo(t)
	p[0].Send(t, "")
	<-runs[0].done
	if !feeds[0].ended.Load() {
		t.Error("the process has ended, is followed no more, and no record says that it has ended")
	}
	at := pace.Monotonic()
	for deadline := time.Now().Add(rubytest.Timeout); feeds[1].lastNS.Load() <= at; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("no record of the other process came")
		}
	}
	if feeds[1].ended.Load() || !runs[1].on() || fetching.is() {
		t.Errorf("the other process has ended: %v, is followed: %v, by the fetcher: %v",
			feeds[1].ended.Load(), runs[1].on(), fetching.is())
	}
}
