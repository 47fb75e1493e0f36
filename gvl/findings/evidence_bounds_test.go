package findings

import (
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/internal/gvltest"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// TestSumsAreBounded: the number of sums that are kept for each second is limited, even if each interval belongs to a
// new thread. No time is lost, because the time of further threads is added to the sums of all threads.
func TestSumsAreBounded(t *testing.T) {
	p := gvltest.ProcOf(sampler.EraSched)
	c := newCollector(stream.New(p), p, sampler.NewDictionary(), new(limits))
	const n = 3 * maxSums
	for i := range n {
		c.Interval(&gvl.Interval{Thread: sampler.ThreadID(i + 1), Ractor: 1, State: gvl.Running, FromNS: 1e9, ToNS: 1e9 + 10})
		c.Ended(0, 1e9+10)
	}
	total, sums := int64(0), c.secondAt(1).sums
	for _, ns := range sums {
		total += ns
	}
	if got := len(sums); got > maxSums+int(gvl.NumStates) || total != 10*n {
		t.Errorf("%d sums, of %d ns in all; %d and %d ns were expected", got, total, maxSums, 10*n)
	}
}
