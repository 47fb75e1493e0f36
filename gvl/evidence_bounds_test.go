package gvl

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestSumsAreBounded: of threads that are new each time a second keeps a bounded number of sums, and none of their time is lost.
func TestSumsAreBounded(t *testing.T) {
	p := procOf(sampler.EraSched)
	c := newCollector(NewStream(p), p, sampler.NewDictionary(), new(limits))
	const n = 3 * maxSums
	for i := range n {
		c.Interval(&Interval{Thread: sampler.ThreadID(i + 1), Ractor: 1, State: Running, FromNS: 1e9, ToNS: 1e9 + 10})
		c.Ended(0, 1e9+10)
	}
	total, sums := int64(0), c.at(1).sums
	for _, ns := range sums {
		total += ns
	}
	if got := len(sums); got > maxSums+int(NumStates) || total != 10*n {
		t.Errorf("%d sums, of %d ns in all; %d and %d ns were expected", got, total, maxSums, 10*n)
	}
}
