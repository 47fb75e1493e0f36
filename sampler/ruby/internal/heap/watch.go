package heap

import (
	"cmp"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxWatchGap is the largest gap, in bytes, between two witnesses that are read as one range.
const maxWatchGap = 512

// watchPage is the smallest unit of memory that is readable or not as a whole.
const watchPage = 4096

// Watch is the memory that an answer was read from. While this memory does not change, the answer is valid. The zero
// value watches nothing. It is not safe for concurrent use.
type Watch struct {
	witnesses []Witness
	buf       []byte
	pieces    []watchPiece
	// planned is true if the plan of this tick has the watch's ranges.
	planned bool
	ranges  []attach.Range
}

// watchPiece is memory that is read at once, and the witnesses in it.
type watchPiece struct {
	addr     attach.Address
	size     int
	from, to int // in witnesses
}

// Set makes the watch cover the noted witnesses.
func (w *Watch) Set(witnesses []Witness) {
	w.witnesses = append(w.witnesses[:0], witnesses...)
	w.planned = false
	sorting.By(w.witnesses, func(a, b Witness) int { return cmp.Compare(a.Addr, b.Addr) })
	w.pieces = w.pieces[:0]
	total := 0
	for i := range w.witnesses {
		x := &w.witnesses[i]
		end := x.Addr + attach.Address(x.Size)
		if n := len(w.pieces); n > 0 {
			p := &w.pieces[n-1]
			have := p.addr + attach.Address(p.size)
			if x.Addr <= have+maxWatchGap && (end <= have || (end-1)/watchPage == (have-1)/watchPage) {
				if end > have {
					total += int(end - have)
					p.size = int(end - p.addr)
				}
				p.to = i + 1
				continue
			}
		}
		w.pieces = append(w.pieces, watchPiece{x.Addr, int(x.Size), i, i + 1})
		total += int(x.Size)
	}
	if cap(w.buf) < total {
		w.buf = make([]byte, total)
	}
}

// Witnesses returns the watched witnesses. The caller must not change them.
func (w *Watch) Witnesses() []Witness { return w.witnesses }

// Clear makes the watch empty.
func (w *Watch) Clear() { w.witnesses, w.pieces, w.planned = w.witnesses[:0], w.pieces[:0], false }

func (w *Watch) empty() bool { return len(w.pieces) == 0 }

// Plan adds the watched ranges to a call. If one of them cannot be read, the caller must call Unplan, because the
// buffers are then invalid.
func (w *Watch) Plan(ranges []attach.Range) []attach.Range {
	w.planned = !w.empty()
	if !w.planned {
		return ranges
	}
	at, buf := len(ranges), w.buf[:cap(w.buf)]
	for _, p := range w.pieces {
		ranges = append(ranges, attach.Range{Addr: p.addr, Buf: buf[:p.size:p.size]})
		buf = buf[p.size:]
	}
	// A caller that adds more ranges may move them. holds reads these.
	w.ranges = append(w.ranges[:0], ranges[at:]...)
	return ranges
}

// holds reports whether agrees accepts each witness with the memory that was read. All ranges must have been read.
func (w *Watch) holds(agrees func(x *Witness, b []byte) bool) bool {
	for i, p := range w.pieces {
		buf := w.ranges[i].Buf
		for j := p.from; j < p.to; j++ {
			x := &w.witnesses[j]
			off := int(x.Addr - p.addr)
			if !agrees(x, buf[off:off+int(x.Size)]) {
				return false
			}
		}
	}
	return true
}

// Unplan says that what Plan has added is not what this tick reads, or could not all be read.
func (w *Watch) Unplan() { w.planned = false }

// Stands reports whether all watched memory is unchanged. It uses the ranges that Plan has added, or reads the memory
// again. It returns false if the watch is empty or memory cannot be read. calls is the number of system calls made.
func (w *Watch) Stands(o *Objects, mem attach.Memory) (same bool, calls int) {
	if w.planned {
		w.planned = false
		return w.holds(o.Agrees), 0
	}
	if w.empty() {
		return false, 0
	}
	same, calls, err := w.Confirm(o, mem, nil, nil)
	return err == nil && same, calls
}

// Word returns the value that a watched word had when Stands read it. ok is false if the word is not watched. If some
// memory could not be read, the value may be an earlier one.
func (w *Watch) Word(addr attach.Address) (word uint64, ok bool) {
	for i, p := range w.pieces {
		if addr >= p.addr && addr+8 <= p.addr+attach.Address(p.size) && i < len(w.ranges) {
			return view.U64(w.ranges[i].Buf[addr-p.addr:]), true
		}
	}
	return 0, false
}

// Confirm reads all watched memory again in one call, and reports whether it is unchanged. It returns false if some of
// it cannot be read. The same call reads the ranges in before first, and the ranges in behind last. The error is
// mem's.
func (w *Watch) Confirm(o *Objects, mem attach.Memory, before, behind []attach.Range) (same bool, calls int, err error) {
	return w.confirm(o.Agrees, mem, before, behind)
}

// ConfirmKept does the same as Confirm, but Hashes may have got new pairs. An answer made from the earlier pairs is
// valid until it is read again.
func (w *Watch) ConfirmKept(o *Objects, mem attach.Memory, before, behind []attach.Range) (same bool, calls int, err error) {
	return w.confirm(o.agreesOrGrew, mem, before, behind)
}

func (w *Watch) confirm(agrees func(x *Witness, b []byte) bool, mem attach.Memory, before, behind []attach.Range) (same bool, calls int, err error) {
	ranges := append(w.Plan(before), behind...)
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
	return w.holds(agrees), calls, nil
}
