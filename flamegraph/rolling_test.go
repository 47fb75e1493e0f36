package flamegraph

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

func newRolling(t testing.TB, window, slot int64) *Rolling {
	t.Helper()
	r, err := NewRolling(window, slot)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRollingEqualsNaive compares a Rolling with a plain list of all additions. The window must have exactly the
// additions whose times are in its slots.
func TestRollingEqualsNaive(t *testing.T) {
	type added struct {
		at int64
		k  Key
		w  Weights
	}
	for seed := uint64(0); seed < uint64(rounds(60)); seed++ {
		rnd := rand.New(rand.NewPCG(seed, 1))
		window, slot := int64(rnd.IntN(900)+1), int64(rnd.IntN(100)+1)
		r := newRolling(t, window, slot)
		slots := (window-1)/slot + 2
		var all []added
		var dropped Weights
		now, newest := int64(rnd.IntN(1000)), int64(0)
		for range 600 {
			switch p := rnd.IntN(20); {
			case p == 0:
				now += int64(rnd.IntN(3000))
			default:
				now += int64(rnd.IntN(20))
			}
			at := now
			if rnd.IntN(5) == 0 {
				at = max(0, now-int64(rnd.IntN(1200))) // this addition comes late
			}
			newest = max(newest, at/slot)
			a := added{at, Key{Thread: sampler.ThreadID(rnd.IntN(3)), Stack: sampler.StackID(rnd.IntN(6)), State: gvl.State(rnd.IntN(3))},
				Weights{WallNS: rnd.Int64N(9), CPUNS: rnd.Int64N(9), Samples: 1}}
			if at/slot <= newest-slots {
				dropped = dropped.Plus(a.w)
			} else {
				all = append(all, a)
			}
			r.Add(a.at, a.k, a.w)
		}
		check := func(name string, s *Snapshot, from, to int64) {
			want := map[Key]Weights{}
			for _, a := range all {
				n := a.at / slot
				if n > newest-slots && n >= from && n <= to {
					want[a.k] = want[a.k].Plus(a.w)
				}
			}
			got := map[Key]Weights{}
			for _, e := range s.Entries {
				if _, twice := got[e.Key]; twice {
					t.Fatalf("seed %d %s: %v twice", seed, name, e.Key)
				}
				got[e.Key] = e.Weights
			}
			for k, w := range want {
				if got[k] != w {
					t.Fatalf("seed %d %s: %v is %v, want %v", seed, name, k, got[k], w)
				}
				delete(got, k)
			}
			for k, w := range got {
				if w != (Weights{}) {
					t.Fatalf("seed %d %s: %v is %v, want nothing", seed, name, k, w)
				}
			}
		}
		var s Snapshot
		r.Snapshot(&s)
		check("window", &s, 0, newest)
		if s.Dropped != dropped {
			t.Fatalf("seed %d: dropped %v, want %v", seed, s.Dropped, dropped)
		}
		from := max(0, (newest-slots/2)*slot)
		r.SnapshotRange(from, now, &s)
		check("range", &s, from/slot, now/slot)
		r.advance(now + window + 2*slot)
		r.Snapshot(&s)
		if len(s.Entries) != 0 {
			t.Fatalf("seed %d: %d entries after everything expired", seed, len(s.Entries))
		}
		if len(r.index) != 0 {
			t.Fatalf("seed %d: %d keys kept after everything expired", seed, len(r.index))
		}
	}
}

func TestRollingWithoutWindowKeepsAll(t *testing.T) {
	r := newRolling(t, 0, 0)
	k := Key{Thread: 1, Stack: 2}
	r.Add(5e9, k, Weights{WallNS: 1})
	r.Add(900e9, k, Weights{WallNS: 2})
	r.Add(1e9, k, Weights{WallNS: 4})
	var s Snapshot
	r.Snapshot(&s)
	if len(s.Entries) != 1 || s.Entries[0].Weights.WallNS != 7 || s.FromNS != 1e9 || s.ToNS != 900e9 {
		t.Fatalf("got %+v", s)
	}
}

func TestNewRollingRefuses(t *testing.T) {
	for _, c := range [][2]int64{{-1, 0}, {10, -1}, {1 << 50, 1}} {
		if r, err := NewRolling(c[0], c[1]); err == nil {
			t.Errorf("NewRolling(%d, %d) = %v, want an error", c[0], c[1], r)
		}
	}
}

// TestRollingOverflow: beyond MaxKeys, weights lose their stacks, but no weight is lost. When old keys leave the
// window, new keys keep their stacks again.
func TestRollingOverflow(t *testing.T) {
	r := newRolling(t, 1000, 100)
	r.maxKeys = 50
	for i := range int64(60) {
		r.Add(i, Key{Thread: 1, Stack: sampler.StackID(i + 1)}, Weights{WallNS: 1})
	}
	var s Snapshot
	r.Snapshot(&s)
	if s.Total().WallNS != 60 || s.Overflow != 10 || len(s.Entries) != 51 {
		t.Fatalf("total %d, overflow %d, entries %d", s.Total().WallNS, s.Overflow, len(s.Entries))
	}
	r.Add(5000, Key{Thread: 1, Stack: 99}, Weights{WallNS: 1})
	r.Snapshot(&s)
	if len(s.Entries) != 1 || s.Entries[0].Key.Stack != 99 {
		t.Fatalf("after the window: %+v", s.Entries)
	}
}

// TestRollingThreadsWithoutEnd: a program that keeps creating threads takes a bounded number of keys. No weight is
// lost.
func TestRollingThreadsWithoutEnd(t *testing.T) {
	r := newRolling(t, 1e9, 1e8)
	r.maxKeys = 50
	const n = 4 * maxStackless
	for i := range int64(n) {
		r.Add(i, Key{Thread: sampler.ThreadID(i + 1), State: gvl.State(i % 2), Stack: sampler.StackID(i % 3)}, Weights{WallNS: 1})
	}
	var s Snapshot
	r.Snapshot(&s)
	if most := r.maxKeys + maxStackless + int(gvl.NumStates); s.Total().WallNS != n || len(s.Entries) > most {
		t.Errorf("total %d of %d, %d entries, at most %d", s.Total().WallNS, n, len(s.Entries), most)
	}
}

// TestRollingConcurrently runs readers and a writer at the same time, under the race detector. Every snapshot must be
// consistent: the writer adds equal WallNS and CPUNS.
func TestRollingConcurrently(t *testing.T) {
	r := newRolling(t, 1e6, 1e4)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range int64(50_000) {
			r.Add(i*100, Key{Thread: sampler.ThreadID(i % 5), Stack: sampler.StackID(i % 300)}, Weights{WallNS: i, CPUNS: i})
		}
	}()
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			var s Snapshot
			for n := 0; ; n++ {
				if n%2 == 0 {
					r.Snapshot(&s)
				} else {
					r.SnapshotRange(s.ToNS-2e5, s.ToNS, &s)
				}
				for _, e := range s.Entries {
					if e.Weights.WallNS != e.Weights.CPUNS {
						t.Errorf("a torn snapshot: %+v", e)
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	wg.Wait()
}

func TestRollingSteadyStateAllocatesNothing(t *testing.T) {
	r := newRolling(t, 2e9, 250e6)
	now := int64(0)
	step := func() {
		for i := range 100 {
			r.Add(now, Key{Thread: sampler.ThreadID(i), Stack: sampler.StackID(now/1e7%50 + 1), State: gvl.State(i % 4)}, Weights{WallNS: 1e7, Samples: 1})
		}
		now += 1e7
	}
	for range 2000 {
		step()
	}
	if n := testing.AllocsPerRun(2000, step); n != 0 {
		t.Errorf("%v allocations a tick", n)
	}
}

func BenchmarkRollingAdd(b *testing.B) {
	r := newRolling(b, 30e9, 0)
	now := int64(0)
	for i := 0; b.Loop(); i++ {
		now += 1e5
		r.Add(now, Key{Thread: sampler.ThreadID(i % 100), Stack: sampler.StackID(i % 2000)}, Weights{WallNS: 1e5})
	}
}

func BenchmarkRollingSnapshot(b *testing.B) {
	r := newRolling(b, 30e9, 0)
	for i := range 1_000_000 {
		r.Add(int64(i)*3e4, Key{Thread: sampler.ThreadID(i % 50), Stack: sampler.StackID(i % 2000)}, Weights{WallNS: 1e5})
	}
	var s Snapshot
	for b.Loop() {
		r.Snapshot(&s)
	}
	b.ReportMetric(float64(len(s.Entries)), "entries")
}
