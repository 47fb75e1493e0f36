package gvl

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestSumsAreBounded: of threads that are new each time a second keeps a bounded number of sums, and none of their time is lost.
func TestSumsAreBounded(t *testing.T) {
	c := newCollector(procOf(sampler.EraSched), sampler.NewDictionary(), new(limits))
	c.enter(1)
	const n = 3 * maxSums
	for i := range n {
		c.flush(&watch{id: sampler.ThreadID(i + 1), state: Running, segNS: 1e9, ractor: 1}, 1e9+10)
	}
	total := int64(0)
	for _, ns := range c.cur.sums {
		total += ns
	}
	if got := len(c.cur.sums); got > maxSums+int(NumStates) || total != 10*n {
		t.Errorf("%d sums, of %d ns in all; %d and %d ns were expected", got, total, maxSums, 10*n)
	}
}
