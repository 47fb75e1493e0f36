package ruby

import (
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// noMemory is a process whose memory cannot be read.
type noMemory struct{ attach.Memory }

func (noMemory) ReadBatch([]attach.Range) (int, error) { return 0, attach.ErrGone }

// TestWaitingLookEnds: a round that reads all fibers ends even if new fibers come faster than it reads them. If some
// fibers could not be read, the field Cut of the result is true.
func TestWaitingLookEnds(t *testing.T) {
	w := newReader(&target{dict: sampler.NewDictionary(), mem: noMemory{}}, Options{}).waiting
	w.searched, w.known, w.scans = true, map[attach.Address]*waitingFiber{}, map[attach.Address]int64{}
	meet := func(n int) {
		for range n {
			w.add(attach.Address(4096*(len(w.order)+1)), 0)
		}
	}
	meet(10 * waitingBatch)
	for i := range w.order {
		w.order[i].gone = true // ddtop does not read the memory of fibers that are gone
	}
	for steps := 0; w.published == nil; steps++ {
		if steps > 20 {
			t.Fatalf("the look is at %d of %d fibers after %d steps", w.at, len(w.order), steps)
		}
		w.lookOn(int64(1e9))
		meet(waitingBatch)
	}
	if !w.published.Cut {
		t.Error("a look at what could not be read is told as one at all")
	}
	if len(w.order) == 0 {
		t.Error("those that were met meanwhile are forgotten")
	}
}

// TestScansBounded: ddtop remembers when it last searched a page, for a limited number of pages. It forgets the pages
// that it searched longest ago.
func TestScansBounded(t *testing.T) {
	w := &waitingFibers{scans: map[attach.Address]int64{}}
	for i := range 10 * maxScans {
		now := int64(i) * maxBirthNS / (maxScans / 4)
		w.roomForScans(now)
		w.scans[attach.Address(i)] = now
		if n := len(w.scans); n > maxScans || w.scans[attach.Address(max(i-maxScans/8, 0))] == 0 && i > 0 && i-maxScans/8 > 0 {
			t.Fatalf("%d: %d are remembered", i, n)
		}
	}
}
