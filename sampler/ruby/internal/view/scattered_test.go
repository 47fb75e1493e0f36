package view

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// holed is a memory in which each third page cannot be read. It counts the ranges that were read.
type holed struct {
	attach.Memory
	ranges int
}

func (h *holed) ReadBatch(ranges []attach.Range) (calls int, err error) {
	for i := range ranges {
		r := &ranges[i]
		r.Failed = false
		for j := range r.Buf {
			at := r.Addr + attach.Address(j)
			r.Buf[j] = byte(at ^ at>>8)
			r.Failed = r.Failed || at/page%3 == 0
		}
	}
	h.ranges += len(ranges)
	return 1, nil
}

// TestScattered reads pieces with a Scattered, and also one by one. Their content must be the same. Some pieces are on
// unreadable pages, cross the end of a page, occur twice, or are empty. The test needs no process, because the code
// only rearranges ranges.
func TestScattered(t *testing.T) {
	var s Scattered
	for _, at := range []attach.Address{0x7f0000000000, 0x00ff_ffff_ff00_0000} {
		for _, n := range []int{0, 1, 2, 300, 3*maxPieces + 7} {
			random := rand.New(rand.NewPCG(uint64(at), uint64(n)))
			pieces, alone := make([]attach.Range, n), make([]attach.Range, n)
			for i := range pieces {
				addr, size := at+attach.Address(random.IntN(min(n, 4000)*500+1)), random.IntN(300)
				if i > 0 && random.IntN(10) == 0 {
					addr = pieces[i-1].Addr
				}
				pieces[i], alone[i] = attach.Range{Addr: addr, Buf: make([]byte, size)}, attach.Range{Addr: addr, Buf: make([]byte, size)}
			}
			var together, single holed
			calls, err := s.Read(&together, pieces)
			if _, e := single.ReadBatch(alone); err != nil || e != nil || calls != (n+maxPieces-1)/maxPieces {
				t.Fatalf("%d pieces: %d calls, %v, %v", n, calls, err, e)
			}
			failed := 0
			for i := range pieces {
				if pieces[i].Failed != alone[i].Failed || !pieces[i].Failed && !bytes.Equal(pieces[i].Buf, alone[i].Buf) {
					t.Fatalf("%d pieces: the piece of %d bytes at %s differs", n, len(pieces[i].Buf), pieces[i].Addr)
				}
				if pieces[i].Failed {
					failed++
				}
			}
			if n >= 300 && (failed < n/5 || failed > n/2) {
				t.Errorf("%d of %d pieces could not be read", failed, n)
			}
			if at < 1<<48 && n >= 300 && together.ranges > single.ranges*2/3 {
				t.Errorf("%d pieces became %d ranges", n, together.ranges)
			}
			if cap(s.buf) > maxKeptScattered {
				t.Errorf("%d bytes are kept", cap(s.buf))
			}
		}
	}
}

// gone is the memory of a process that ends after some batches.
type gone struct {
	holed
	batches int
}

func (g *gone) ReadBatch(ranges []attach.Range) (calls int, err error) {
	if g.batches--; g.batches < 0 {
		for i := range ranges {
			ranges[i].Failed = true
		}
		return 1, attach.ErrGone
	}
	return g.holed.ReadBatch(ranges)
}

// TestScatteredEnds ends the process between two batches. All pieces that were not read must be marked as Failed.
func TestScatteredEnds(t *testing.T) {
	pieces := make([]attach.Range, 2*maxPieces)
	for i := range pieces {
		pieces[i] = attach.Range{Addr: page + attach.Address(i%3000), Buf: make([]byte, 1)}
	}
	var s Scattered
	if _, err := s.Read(&gone{batches: 1}, pieces); err != attach.ErrGone {
		t.Fatal(err)
	}
	for i := range pieces {
		if pieces[i].Failed != (i >= maxPieces) {
			t.Fatalf("piece %d: failed %v", i, pieces[i].Failed)
		}
	}
}
