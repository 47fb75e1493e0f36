package live

import (
	"runtime"
	"testing"
)

// TestFetcherRuns: there is one goroutine that fetches while several processes are followed, and none while there are
// fewer.
func TestFetcherRuns(t *testing.T) {
	var f fetcher
	running := func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.running
	}
	one, two := &switchRun{closed: true}, &switchRun{closed: true} // from which nothing is fetched
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
