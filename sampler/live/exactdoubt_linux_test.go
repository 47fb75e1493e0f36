package live

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

// TestExactDoubt: while most holds of the GVL in samples contradict the probes' records, samples must have no changes
// of the GVL. When most holds agree again, samples must have changes again. The first changes must give each thread's
// state, and contain nothing from the time of doubt.
func TestExactDoubt(t *testing.T) {
	const thread, tid = 0x1000, 1
	x := &exactRun{fromNS: 1, changes: exact.NewCollector(1)}
	x.to = exact.NewMachine(x.changes.Changed)
	list := exact.NewList(1)
	list.Add(thread, 7, tid)
	now := int64(1)
	sampled := func() sampler.Changes {
		now += 10e9
		x.to.Feed(&exact.Record{NS: now - 2e9, TID: tid, Kind: exact.Unlocked, Thread: thread})
		x.to.Feed(&exact.Record{NS: now - 1e9, TID: tid, Kind: exact.Unlocked, Thread: thread, Owner: thread, Linked: true})
		s := sampler.Sample{TimeNS: now}
		x.fill(&s, list)
		return s.Changes
	}
	for i := range int32(doubtFrom) {
		if c := sampled(); !c.Known() || i > 0 && c.Fresh {
			t.Fatalf("%d turns do not fit: %+v", i, c)
		}
		x.to.Compare(100+i, now) // TID 100+i belongs to none of the threads
	}
	for i := range doubtFrom {
		if c := sampled(); c.Known() || len(c.List) > 0 {
			t.Fatalf("%d turns do not fit, %d do: %+v", doubtFrom, i, c)
		}
		x.to.Compare(tid, now)
	}
	last := now
	if c := sampled(); !c.Fresh || c.FromNS != last || c.List[0].State != sampler.GVLHeld {
		t.Errorf("half do: %+v", c)
	}
	if c := sampled(); !c.Known() || c.Fresh || !x.fits(checkFrom) {
		t.Errorf("then %+v", c)
	}
}

// TestExactDoubtfulEnd: if records were lost in the last second of a run, its samples have changes only up to the loss.
// If the loss was earlier, they have changes up to the end.
func TestExactDoubtfulEnd(t *testing.T) {
	const second = int64(1e9)
	list := exact.NewList(0)
	for _, c := range []struct{ lossNS, knownToNS int64 }{{0, 10 * second}, {8 * second, 10 * second}, {9*second + 1, 9*second + 1}} {
		x := &exactRun{fromNS: 1, changes: exact.NewCollector(1), lossNS: c.lossNS, closed: true}
		x.to = exact.NewMachine(x.changes.Changed)
		x.report.ToNS = 10 * second
		x.toNS.Store(10 * second)
		for ns := second / 2; ns <= 11*second; ns += second / 2 {
			s := sampler.Sample{TimeNS: ns}
			if x.fill(&s, list); s.Changes.Known() != (ns <= c.knownToNS) {
				t.Errorf("loss at %d ns: changes known at %d ns: %v", c.lossNS, ns, s.Changes.Known())
			}
		}
	}
}
