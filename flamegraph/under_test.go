package flamegraph

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestUnderIsWhatANodeWeighs: the keys under a node weigh as much as its Total, whatever the options of the tree.
func TestUnderIsWhatANodeWeighs(t *testing.T) {
	for seed := uint64(0); seed < uint64(rounds(40)); seed++ {
		rnd := rand.New(rand.NewPCG(seed, 21))
		w := newWorld(rnd, 30, 60, 12)
		s := w.snapshot(rnd, 200, 8)
		o := randomOptions(rnd)
		tree := NewBuilder(w.dict).Build(s, o)
		var walk func(*Node)
		walk = func(n *Node) {
			under, got := tree.Under(w.dict, n), int64(0)
			for _, e := range s.Entries {
				if under(e.Key) {
					got += e.Weights.Of(o.Metric)
				}
			}
			want := n.Total
			if n.Kind == CutNode {
				want = 0
			}
			if got != want {
				t.Fatalf("seed %d, %+v: %d under %v, its total is %d", seed, o, got, PathOf(n), n.Total)
			}
			for _, c := range n.Children {
				walk(c)
			}
		}
		walk(tree.Root)
	}
}

// TestSpreadEqualsSnapshotRange: for each slot and the chosen keys, Spread has the same weights as a snapshot of this
// slot.
func TestSpreadEqualsSnapshotRange(t *testing.T) {
	for seed := uint64(0); seed < uint64(rounds(40)); seed++ {
		rnd := rand.New(rand.NewPCG(seed, 22))
		const slot = 100
		r := newRolling(t, 5000, slot)
		now := rnd.Int64N(3000)
		for range 800 {
			now += rnd.Int64N(25)
			at := max(0, now-rnd.Int64N(400)) // some additions come late
			r.Add(at, Key{Thread: sampler.ThreadID(rnd.IntN(4)), Stack: sampler.StackID(rnd.IntN(6)), State: gvl.State(rnd.IntN(3))}, Weights{WallNS: rnd.Int64N(50), CPUNS: rnd.Int64N(9)})
		}
		from := now - rnd.Int64N(6000)
		to := from + rnd.Int64N(7000)
		got, asked, before := map[Key]Weights{}, map[Key]int{}, int64(0)
		r.Spread(from, to, func(k Key) bool { asked[k]++; return k.Thread < 3 }, func(fromNS, toNS int64, k Key, w Weights) {
			if fromNS%slot != 0 || toNS-fromNS > slot || toNS > now || fromNS < before || fromNS > to || fromNS+slot <= from {
				t.Fatalf("seed %d: a slot from %d to %d after %d; asked for %d to %d of what ends at %d", seed, fromNS, toNS, before, from, to, now)
			}
			before = fromNS
			got[k] = got[k].Plus(w)
		})
		var s Snapshot
		r.SnapshotRange(from, to, &s)
		want := map[Key]Weights{}
		for _, e := range s.Entries {
			if e.Key.Thread < 3 {
				want[e.Key] = e.Weights
			}
			if asked[e.Key] != 1 {
				t.Errorf("seed %d: %v was asked for %d times", seed, e.Key, asked[e.Key])
			}
		}
		if len(got) != len(want) {
			t.Fatalf("seed %d: %d keys, want %d", seed, len(got), len(want))
		}
		for k, w := range want {
			if got[k] != w {
				t.Errorf("seed %d: %v weighs %+v, want %+v", seed, k, got[k], w)
			}
		}
	}
	none := newRolling(t, 0, 0)
	none.Add(5, Key{Thread: 1}, Weights{WallNS: 1})
	none.Spread(0, 10, func(Key) bool { t.Error("asked"); return true }, nil)
}
