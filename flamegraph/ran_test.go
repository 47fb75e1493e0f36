package flamegraph

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// TestRanDivides: the time of a Ruby stack is divided among C functions in which the thread ran, in proportion to the
// native stacks that were copied. If no native stack was copied below this Ruby stack, the native stacks in the same
// innermost method are used. The totals of Ruby frames stay the same to the ns. Other states and methods are not
// divided.
func TestRanDivides(t *testing.T) {
	d := sampler.NewDictionary()
	ruby := d.InternStack(0, d.InternFrame(sampler.Frame{Label: "Zlib.deflate", C: true}))
	other := d.InternStack(0, d.InternFrame(sampler.Frame{Label: "other"}))
	below := func(names ...string) sampler.StackID {
		var s sampler.NativeStack
		for _, n := range names {
			s.Frames = append(s.Frames, sampler.NativeFrame{Name: n, Library: "libz", Path: "/libz.so", Offset: 8, Function: 4})
		}
		return d.InternNative(ruby, &s)
	}
	slow, crc := below("longest_match", "deflate"), below("crc32", "deflate")
	r, err := NewRolling(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.DivideBy(d)
	w := Weights{WallNS: 1_000_000_007, CPUNS: 900_000_001, BlameNS: 5, Samples: 10, AllocSeen: 3, AllocTicks: 1}
	keys := []Key{{Thread: 1, Stack: ruby, State: gvl.Running}, {Thread: 1, Stack: ruby, State: gvl.GC},
		{Thread: 2, Stack: ruby, State: gvl.Running}, {Thread: 1, Stack: other, State: gvl.Running}}
	for _, k := range keys {
		r.Add(1, k, w)
	}
	for stack, n := range map[sampler.StackID]int64{slow: 6, crc: 1, ruby: 3} {
		r.Add(1, Key{Thread: 1, Stack: stack, State: gvl.Running, Ran: true}, Weights{Samples: n})
	}
	var s Snapshot
	r.Snapshot(&s)
	got := make(map[Key]Weights)
	for _, e := range s.Entries {
		got[e.Key] = got[e.Key].Plus(e.Weights)
	}
	for _, k := range []Key{keys[1], keys[3]} {
		if got[k] != w {
			t.Errorf("%+v has %+v", k, got[k])
		}
	}
	of := func(stack sampler.StackID) Weights { return got[Key{Thread: 1, Stack: stack, State: gvl.Running}] }
	if of(slow).WallNS != 600_000_004 || of(crc).CPUNS != 90_000_000 || of(slow).Samples != 6 {
		t.Errorf("%+v, %+v", of(slow), of(crc))
	}
	if of(ruby).AllocSeen != 3 || of(slow).AllocSeen != 0 {
		t.Errorf("objects: %+v, %+v", of(ruby), of(slow))
	}
	if sum := of(slow).Plus(of(crc)).Plus(of(ruby)); sum != w {
		t.Errorf("the sum is %+v", sum)
	}
	for k := range got {
		if k.Ran {
			t.Errorf("%+v", k)
		}
	}
	// Thread 2 runs the same method with other callers. None of its own stacks was copied. So its time is divided in
	// proportion to the stacks that were copied in this method.
	_, frame := d.Stack(slow)
	n := got[Key{Thread: 2, Stack: slow, State: gvl.Running}]
	if n.WallNS != 600_000_004 || d.Frame(frame).Label != "longest_match" {
		t.Errorf("by its method: %+v", n)
	}
	tree := NewBuilder(d).Build(&s, Options{Metric: CPU})
	for _, n := range tree.Root.Children {
		if n.Label == "Zlib.deflate" && (n.Total != 3*w.CPUNS || len(n.Children) != 1 || n.Children[0].Label != "deflate") {
			t.Errorf("%+v", n)
		}
	}
}

// TestRanKeepsSums: for any stacks, the sums by thread, state and Ruby frame are the same with and without the
// division.
func TestRanKeepsSums(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	d := sampler.NewDictionary()
	var stacks []sampler.StackID
	rubyOf := make(map[sampler.StackID]sampler.StackID)
	for i := range 20 {
		s := d.InternStack(0, d.InternFrame(sampler.Frame{Label: "m", Line: int32(i)}))
		rubyOf[s] = s
		stacks = append(stacks, s)
		for j := range 3 {
			n := d.InternNative(s, &sampler.NativeStack{Frames: []sampler.NativeFrame{{Library: "c", Offset: uint64(j + 1)}}})
			rubyOf[n] = s
			stacks = append(stacks, n)
		}
	}
	plain, err := NewRolling(10e9, 0)
	if err != nil {
		t.Fatal(err)
	}
	divided, _ := NewRolling(10e9, 0)
	divided.DivideBy(d)
	for range 5000 {
		at := random.Int64N(20e9)
		k := Key{Thread: sampler.ThreadID(1 + random.IntN(3)), Stack: stacks[random.IntN(len(stacks))], State: gvl.State(random.IntN(int(gvl.NumStates)))}
		w := Weights{WallNS: random.Int64N(1e9), CPUNS: random.Int64N(1e9), Samples: random.Int64N(3)}
		if random.IntN(2) == 0 {
			k.Ran, w = true, Weights{Samples: 1}
		}
		plain.Add(at, k, w)
		divided.Add(at, k, w)
	}
	sums := func(r *Rolling) map[Key]Weights {
		var s Snapshot
		r.SnapshotRange(5e9, 15e9, &s)
		out := make(map[Key]Weights)
		for _, e := range s.Entries {
			e.Key.Stack = rubyOf[e.Key.Stack]
			out[e.Key] = out[e.Key].Plus(e.Weights)
		}
		return out
	}
	a, b := sums(plain), sums(divided)
	if len(a) < 20 || len(a) != len(b) {
		t.Errorf("%d keys, %d", len(a), len(b))
	}
	for k, w := range a {
		if b[k] != w {
			t.Errorf("%+v: %+v, not %+v", k, b[k], w)
		}
	}
}
