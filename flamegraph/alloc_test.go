package flamegraph

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// allocSample returns a sample of two threads. owner is the thread that holds the GVL. If owner is zero, no thread
// holds it.
func allocSample(at int64, owner sampler.ThreadID, stack sampler.StackID, allocated uint64, seen uint32) (*sampler.Sample, []gvl.ThreadState) {
	s := &sampler.Sample{TimeNS: at, Threads: []sampler.Thread{{ID: 1, Ractor: 1}, {ID: 2, Ractor: 1}},
		GC: sampler.GC{Valid: true, Allocated: allocated, Pair: sampler.AllocPair{Thread: owner, Objects: seen}}}
	states := []gvl.ThreadState{{State: gvl.IO}, {State: gvl.IO}}
	if owner != 0 {
		s.Threads[owner-1].Stack, s.Threads[owner-1].Quality = stack, sampler.StackFresh
		states[owner-1].State = gvl.Running
	}
	return s, states
}

// TestAllocations: for random samples, the estimates of all stacks add up to the exact count. A stack's estimate is in
// proportion to the objects that samples saw in this stack.
func TestAllocations(t *testing.T) {
	for seed := uint64(0); seed < uint64(rounds(100)); seed++ {
		rnd := rand.New(rand.NewPCG(seed, 3))
		r, c := everything(t)
		at, allocated := int64(1e9), uint64(rnd.Int64N(1e9))
		first := allocated
		seen := map[sampler.StackID]int64{}
		ticks := int64(0)
		for range 500 {
			at += 1e6
			owner := sampler.ThreadID(rnd.IntN(3))
			stack := sampler.StackID(1 + rnd.IntN(3))
			n := uint32(0)
			if rnd.IntN(2) == 0 && owner != 0 {
				n = uint32(rnd.IntN(5)) * uint32(stack)
			}
			s, states := allocSample(at, owner, stack, allocated, n)
			if rnd.IntN(10) == 0 {
				s.Depth = sampler.StackTick
			}
			c.Feed(s, states)
			seen[stack] += int64(n)
			if n > 0 {
				ticks++
			}
			allocated += uint64(rnd.IntN(4000))
		}
		last := allocated
		s, states := allocSample(at+1e6, 1, 1, last, 0)
		c.Feed(s, states)
		c.Finish()
		var snap Snapshot
		r.Snapshot(&snap)
		est := snap.Allocations()
		all := seen[1] + seen[2] + seen[3]
		if est.Objects != int64(last-first) || est.Seen != all || est.Ticks != ticks || !est.Enough() {
			t.Fatalf("seed %d: %+v, want %d objects, %d seen in %d ticks", seed, est, last-first, all, ticks)
		}
		if want := 1 / math.Sqrt(float64(ticks)); est.Error() != want {
			t.Errorf("seed %d: error %v, want %v", seed, est.Error(), want)
		}
		got := map[sampler.StackID]int64{}
		value, sum := snap.Values(Allocations), int64(0)
		for _, e := range snap.Entries {
			v := value(e.Weights)
			got[e.Key.Stack] += v
			sum += v
		}
		if sum != est.Objects {
			t.Errorf("seed %d: the estimates sum to %d, not %d", seed, sum, est.Objects)
		}
		for stack, n := range seen {
			want := float64(n) / float64(all) * float64(est.Objects)
			if math.Abs(float64(got[stack])-want) > 10 { // each entry is rounded once, so a small difference is allowed
				t.Errorf("seed %d: stack %d has %d objects, want %.0f", seed, stack, got[stack], want)
			}
		}
	}
}

// TestAllocationsTree: for the metric Allocations, each node's weight is the estimated number of objects. The tree has
// the evidence for the estimate.
func TestAllocationsTree(t *testing.T) {
	d := sampler.NewDictionary()
	stack := func(label string) sampler.StackID {
		return d.InternStackOf([]sampler.FrameID{d.InternFrame(sampler.Frame{Label: label})})
	}
	r, c := everything(t)
	a, b := stack("A"), stack("B")
	for i := range 150 {
		st, n := a, uint32(3)
		if i%2 == 1 {
			st, n = b, 1
		}
		s, states := allocSample(int64(1e9+i*1e6), 1, st, uint64(i*1000), n)
		c.Feed(s, states)
	}
	c.Finish()
	var snap Snapshot
	r.Snapshot(&snap)
	tree := NewBuilder(d).Build(&snap, Options{Metric: Allocations})
	if tree.Root.Total != 149_000 || tree.Allocations != snap.Allocations() || !tree.Allocations.Enough() {
		t.Errorf("%d objects, %+v", tree.Root.Total, tree.Allocations)
	}
	for _, n := range tree.Root.Children {
		want := map[string]float64{"A": .75, "B": .25}[n.Label]
		if got := float64(n.Total) / float64(tree.Root.Total); math.Abs(got-want) > 1e-4 {
			t.Errorf("%s has %.4f of the objects, want %.2f", n.Label, got, want)
		}
	}
	if wall := NewBuilder(d).Build(&snap, Options{}); wall.Allocations != (AllocEstimate{}) {
		t.Errorf("a tree of wall time has %+v", wall.Allocations)
	}
}

// TestAllocationsCompaction: if compaction moves objects, Ruby's counter counts them as allocated. A Collector must not
// count them as new objects.
func TestAllocationsCompaction(t *testing.T) {
	r, c := everything(t)
	feed := func(at int64, allocated uint64, moved int64) {
		s, states := allocSample(at, 1, 5, allocated, 1)
		s.GCDetail = sampler.GCDetail{AtNS: at, Moved: moved, MovesCounted: true}
		c.Feed(s, states)
	}
	feed(1e9, 1000, 50)
	feed(2e9, 1500, 50)
	feed(3e9, 31600, 50) // a compaction has moved 30,000 objects, but this is not reported yet
	feed(4e9, 31700, 30050)
	c.Finish()
	var snap Snapshot
	r.Snapshot(&snap)
	if got := snap.Allocations(); got.Objects != 700 || got.Enough() {
		t.Errorf("%+v, want 700 objects of too few ticks", got)
	}
}

// TestAllocationsUnknown: if no sample shows which stack allocates (sampler.AllocPair), there is no estimate. There is
// also no estimate if some samples lack the garbage collector's counters.
func TestAllocationsUnknown(t *testing.T) {
	r, c := everything(t)
	for i := range 300 {
		s, states := allocSample(int64(1e9+i*1e6), 0, 0, uint64(i), 0)
		s.GC.Valid = i%2 == 0
		c.Feed(s, states)
	}
	c.Finish()
	var snap Snapshot
	r.Snapshot(&snap)
	if got := snap.Allocations(); got != (AllocEstimate{}) || got.Enough() || !math.IsInf(got.Error(), 1) {
		t.Errorf("%+v, error %v", got, got.Error())
	}
	value := snap.Values(Allocations)
	for _, e := range snap.Entries {
		if v := value(e.Weights); v != 0 {
			t.Errorf("%d objects from nowhere", v)
		}
	}
}
