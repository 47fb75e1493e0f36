package trace

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// maxGap is how many bytes between two witnesses are read along rather than in a range of their own.
const maxGap = 512

// page is the smallest unit that can be read or not.
const page = 4096

// watch is the memory that an answer was read from: while it says the same, so does the answer.
type watch struct {
	witnesses []heap.Witness
	buf       []byte
	pieces    []piece
	// planned: its pieces are in the plan of this tick, from at on.
	planned bool
	ranges  []attach.Range
}

// piece is memory that is read at once, and the witnesses in it.
type piece struct {
	addr     attach.Address
	size     int
	from, to int // in witnesses
}

// set takes over what was written down.
func (w *watch) set(witnesses []heap.Witness) {
	w.witnesses = append(w.witnesses[:0], witnesses...)
	w.planned = false
	slices.SortFunc(w.witnesses, func(a, b heap.Witness) int { return cmp.Compare(a.Addr, b.Addr) })
	w.pieces = w.pieces[:0]
	total := 0
	for i := range w.witnesses {
		x := &w.witnesses[i]
		end := x.Addr + attach.Address(x.Size)
		if n := len(w.pieces); n > 0 {
			p := &w.pieces[n-1]
			have := p.addr + attach.Address(p.size)
			if x.Addr <= have+maxGap && (end <= have || (end-1)/page == (have-1)/page) {
				if end > have {
					total += int(end - have)
					p.size = int(end - p.addr)
				}
				p.to = i + 1
				continue
			}
		}
		w.pieces = append(w.pieces, piece{x.Addr, int(x.Size), i, i + 1})
		total += int(x.Size)
	}
	if cap(w.buf) < total {
		w.buf = make([]byte, total)
	}
}

// clear says that there is nothing to watch.
func (w *watch) clear() { w.witnesses, w.pieces, w.planned = w.witnesses[:0], w.pieces[:0], false }

func (w *watch) empty() bool { return len(w.pieces) == 0 }

// plan adds its pieces to the ranges of a call.
func (w *watch) plan(ranges []attach.Range) []attach.Range {
	w.planned = !w.empty()
	if !w.planned {
		return ranges
	}
	at, buf := len(ranges), w.buf[:cap(w.buf)]
	for _, p := range w.pieces {
		ranges = append(ranges, attach.Range{Addr: p.addr, Buf: buf[:p.size:p.size]})
		buf = buf[p.size:]
	}
	// Whoever adds more ranges may move them: what is looked at later are these.
	w.ranges = append(w.ranges[:0], ranges[at:]...)
	for i := range w.ranges {
		clear(w.ranges[i].Buf) // a piece that can't be read agrees with nothing
	}
	return ranges
}

// holds reports whether what was read agrees with what the answer was made from. A piece that can't be read does not.
func (w *watch) holds(o *heap.Objects) bool {
	for i, p := range w.pieces {
		buf := w.ranges[i].Buf
		for j := p.from; j < p.to; j++ {
			x := &w.witnesses[j]
			off := int(x.Addr - p.addr)
			if !o.Agrees(x, buf[off:off+int(x.Size)]) {
				return false
			}
		}
	}
	return true
}

// confirm reads it all again at once and reports whether it still says the same.
func (w *watch) confirm(o *heap.Objects, mem attach.Memory) (same bool, calls int, err error) {
	ranges := w.plan(nil)
	w.planned = false
	calls, err = mem.ReadBatch(ranges)
	if err != nil {
		return false, calls, err
	}
	for i := range ranges {
		if ranges[i].Failed {
			return false, calls, nil
		}
	}
	return w.holds(o), calls, nil
}
