package ruby

import (
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

func TestForeignGC(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "[heap]": "", "/usr/lib/libruby.so.3.4.9": "", "/opt/gc/librubygc.default.so": "", "/opt/gc/librubygc.mmtk.so": "mmtk",
		"/opt/gc/librubygc.mmtk.so.1": "mmtk", "/opt/librubygc.mmtk.so/other.so": "", "/opt/librubygc.so": "", "/x/librubygc.mmtk.txt": "",
	} {
		m := []attach.Mapping{{Path: "/usr/bin/ruby", Inode: 1}, {Path: path, Inode: 2}}
		if got := ForeignGC(m); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// TestHeapSum plays 4.0's counting: a cache counts up, and at 1,024 is added to the heap's counter and cleared, in two
// steps. Wherever the four readings fall, total and delta are those of the moments when the caches were read.
func TestHeapSum(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 0))
	for range 20000 {
		const flush = 1024
		start := rnd.Uint64N(flush)
		heap, cache, made := uint64(5000), start, uint64(5000)+start
		var s heapSum
		s.cached = true
		var madeAt [2]uint64
		// The order of one call: heap, cache, (frames), cache, heap; up to a few objects in between, and maybe the step
		// between adding and clearing.
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
			continue // a reading between the two steps of a flush: below
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
