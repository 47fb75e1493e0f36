package gc

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
)

func TestForeignGC(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "[heap]": "", "/usr/lib/libruby.so.3.4.9": "", "/opt/gc/librubygc.default.so": "", "/opt/gc/librubygc.mmtk.so": "mmtk",
		"/opt/gc/librubygc.mmtk.so.1": "mmtk", "/opt/librubygc.mmtk.so/other.so": "", "/opt/librubygc.so": "", "/x/librubygc.mmtk.txt": "",
	} {
		m := []attach.Mapping{{Path: "/usr/bin/ruby", Inode: 1}, {Path: path, Inode: 2}}
		if got := Foreign(m); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestHeapSum simulates how 4.0 counts objects. A cache counts new objects. At 1,024 its count is added to the heap's
// counter, and in a second step the cache is cleared. The four readings happen at random steps. total and delta must be
// right for the moments when the caches were read.
func TestHeapSum(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 0))
	for range 20000 {
		const flush = 1024
		start := rnd.Uint64N(flush)
		heap, cache, made := uint64(5000), start, uint64(5000)+start
		var s heapSum
		s.cached = true
		var madeAt [2]uint64
		// One call reads in this order: heap, cache, (frames), cache, heap. Between two readings, the target may
		// allocate a few objects, or add a cache to the heap, or clear the cache.
		adding := false
		step := func() {
			for range rnd.IntN(4) {
				switch {
				case adding:
					cache, adding = 0, false
				case cache >= flush-1:
					heap, adding = heap+cache, true
				default:
					cache, made = cache+1, made+1
				}
			}
		}
		s.heap1 = heap
		step()
		s.cache1, madeAt[0] = cache, made
		between := adding
		step()
		s.cache2, madeAt[1] = cache, made
		between = between || adding
		step()
		s.heap2 = heap
		if between {
			continue // the reading is between the two steps of a flush; a case below tests this
		}
		if got, want := s.total(), madeAt[0]; got != want {
			t.Fatalf("%+v: total %d, want %d", s, got, want)
		}
		if got, want := s.delta(), int64(madeAt[1]-madeAt[0]); got != want {
			t.Fatalf("%+v: delta %d, want %d", s, got, want)
		}
	}
	for _, c := range []struct {
		name  string
		s     heapSum
		total uint64
		delta int64
	}{
		{"one counter", heapSum{heap1: 100, heap2: 107}, 100, 7},
		{"added, not cleared yet, at the second reading of the cache", heapSum{heap1: 0, heap2: 1024, cache1: 1020, cache2: 1024, cached: true}, 1020, 4},
		{"emptied at a collection", heapSum{heap1: 0, heap2: 300, cache1: 300, cache2: 2, cached: true}, 300, 2},
	} {
		if c.s.total() != c.total || c.s.delta() != c.delta {
			t.Errorf("%s: total %d, delta %d", c.name, c.s.total(), c.s.delta())
		}
	}
}

// TestInterruptedCalls makes a system call that takes several times the duration of recent calls. It must count as
// interrupted, because the sampler has lost its CPU in it. If all calls take longer from then on, for example because
// there are more threads, the longer time must soon count as usual.
func TestInterruptedCalls(t *testing.T) {
	var u usual
	for i, c := range []struct {
		ns          int64
		interrupted bool
	}{{400_000, false}, {8_000, false}, {9_000, false}, {31_000, false}, {60_000, true}, {7_000, false}} {
		if got := u.interrupted(c.ns); got != c.interrupted {
			t.Errorf("call %d, of %d ns: %v", i, c.ns, got)
		}
	}
	calls := 0
	for u.interrupted(100_000) {
		if calls++; calls > 1000 {
			t.Fatalf("after %d calls of 100 µs the usual length is %d ns", calls, u)
		}
	}
	if calls < 50 {
		t.Errorf("%d calls of 100 µs made that the usual length", calls)
	}
}

// TestCountNeverGoesBack: the sampler loses its CPU between two readings of one call. In this time a cache is emptied
// and filled again. The total number of objects must not decrease.
func TestCountNeverGoesBack(t *testing.T) {
	c := allocCounter{n: 1}
	for i, reading := range []struct {
		sum  heapSum
		want uint64
	}{
		{heapSum{heap1: 4096, cache1: 1000, cache2: 1010, heap2: 4096, cached: true}, 5096},
		// the cache was emptied before it was read
		{heapSum{heap1: 4096, cache1: 3, cache2: 9, heap2: 5120, cached: true}, 5123},
		// the cache was emptied a long time before it was read
		{heapSum{heap1: 5120, cache1: 700, cache2: 740, heap2: 6144, cached: true}, 5820},
		{heapSum{heap1: 5120, cache1: 690, cache2: 740, heap2: 6144, cached: true}, 5820},
		{heapSum{heap1: 6144, cache1: 800, cache2: 800, heap2: 6144, cached: true}, 6944},
	} {
		c.settle(0, reading.sum)
		if got := c.total(); got != reading.want {
			t.Errorf("reading %d: %d, want %d", i, got, reading.want)
		}
	}
}

// TestTablesResolve checks that the layout table of each known release has all fields of the collector that ddtop
// reads.
func TestTablesResolve(t *testing.T) {
	releases, err := layout.Releases()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range releases {
		for _, jmpBuf := range []bool{false, true} {
			table, _, err := layout.For(r.Version, r.Machine, jmpBuf)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := places.ParseRelease(r.Version)
			if err != nil {
				t.Fatal(err)
			}
			g := New(Target{Table: table, Release: rel, Objspace: 1})
			if g == nil || !g.classes.ok || !g.alloc.known() || g.detail.buf == nil {
				t.Errorf("%s: the collector can't be read", table.Name)
				continue
			}
			if counts := g.alloc.cachePtr >= 0; counts != rel.AtLeast(4, 0) {
				t.Errorf("%s: ractors count what they allocate in caches of their own: %t", table.Name, counts)
			}
			if err := g.resolve(new(pageList)); err != nil {
				t.Error(err)
			}
		}
	}
}
