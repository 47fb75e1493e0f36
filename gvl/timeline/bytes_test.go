package timeline

import (
	"runtime"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// TestTimelineBytes: thousands of threads that change their states all the time take no more memory than
// MaxTimelineBytes. To save memory, the oldest columns are dropped. Range must not include dropped columns, and all
// columns in Range must be complete.
func TestTimelineBytes(t *testing.T) {
	const columnNS, threads = int64(100e6), 2000
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	stream := stream.New(sampler.Process{})
	tl := New(stream, columnNS, 6000)
	s := &sampler.Sample{Threads: make([]sampler.Thread, threads)}
	states := make([]gvl.ThreadState, threads)
	for i := range states {
		s.Threads[i].ID = sampler.ThreadID(i + 1)
		states[i].Thread = s.Threads[i].ID
	}
	s.Depth = sampler.StackTick
	for s.TimeNS = 1e9; s.TimeNS < 200e9; s.TimeNS += 40e6 {
		for i := range states {
			states[i].State = []gvl.State{gvl.Running, gvl.IO, gvl.Waiting}[(int(s.TimeNS/40e6)+i)%3]
		}
		stream.Feed(s, states)
	}
	// The memory can exceed the limit a little. Between two samples every thread may fill a chunk, and each thread's
	// list takes some KB.
	if got := heap() - before; got > MaxTimelineBytes+threads*8<<10 {
		t.Errorf("%d MB of columns", got>>20)
	}
	from, to := tl.Range()
	tl.sync()
	if to-from < 60e9 || to-from > 190e9 {
		t.Errorf("%d s are kept", (to-from)/1e9)
	}
	for id, r := range tl.rows {
		for col := from / columnNS; col < tl.col; col++ {
			var ns [gvl.NumStates]int64
			r.add(&ns, col, 1, 1, columnNS)
			sum := int64(0)
			for _, v := range ns {
				sum += v
			}
			if sum < columnNS*99/100 {
				t.Fatalf("thread %d has %d ns of column %d, of which all is in range", id, sum, col)
			}
		}
	}
	runtime.KeepAlive(tl)
}
