package asks

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestLedger compares the Ledger's sums after random calls with the sums of a simple list. For each page, the list has
// the stack that asked for it.
func TestLedger(t *testing.T) {
	const pages, page = 64, 4096
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var l Ledger
		var owners [pages]sampler.StackID // by page
		want := make(map[sampler.StackID]*sampler.MemoryAsk)
		for range 100 {
			from, n := r.IntN(pages), 1+r.IntN(8)
			n = min(n, pages-from)
			switch r.IntN(4) {
			case 0:
				l.Gone(uint64(from)*page, uint64(n)*page)
				clear(owners[from : from+n])
			case 1:
				to, less := r.IntN(pages-n+1), r.IntN(n+1)
				if to < from+n && from < to+n {
					continue // mremap refuses these arguments
				}
				l.Moved(uint64(from)*page, uint64(n)*page, uint64(to)*page, uint64(n-less)*page)
				copy(owners[to:to+n-less], owners[from:from+n-less])
				clear(owners[from : from+n])
			default:
				id := sampler.StackID(1 + r.IntN(3))
				of := l.More(uint64(from)*page, uint64(n)*page)
				if want[id] == nil {
					want[id] = &sampler.MemoryAsk{Stack: id}
				}
				want[id].Calls++
				want[id].Bytes += uint64(n) * page
				l.Name(of, id)
				for i := from; i < from+n; i++ {
					owners[i] = id
				}
			}
		}
		for _, id := range owners {
			if id != 0 {
				want[id].Held += page
			}
		}
		got := l.Sum()
		if len(got.Stacks) != len(want) || !got.Sure {
			t.Fatalf("seed %d: %+v", seed, got)
		}
		for i, x := range got.Stacks {
			if !reflect.DeepEqual(x, *want[x.Stack]) || i > 0 && x.Held > got.Stacks[i-1].Held {
				t.Fatalf("seed %d: %+v, want %+v", seed, x, *want[x.Stack])
			}
		}
	}
}

// TestLedgerIsBounded: the Ledger leaves out areas and stacks beyond the limits, and the sum reports this.
func TestLedgerIsBounded(t *testing.T) {
	var l Ledger
	for i := range uint64(maxAreas + 10) {
		l.Name(l.More(i*8192, 4096), sampler.StackID(i))
	}
	if s := l.Sum(); s.Sure || len(s.Stacks) != maxStacks || s.Copied != maxStacks || len(l.areas) != maxAreas {
		t.Errorf("%d areas, %d stacks, sure: %v", len(l.areas), len(s.Stacks), s.Sure)
	}
	l.Forget()
	if s := l.Sum(); len(s.Stacks) != 0 || s.Copied != 0 {
		t.Errorf("%+v", s)
	}
}
