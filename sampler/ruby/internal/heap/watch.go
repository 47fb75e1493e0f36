package heap

import (
	"cmp"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxWatchGap is the largest gap between two pieces of watched memory, in bytes, at which ddtop reads both as one
// range.
const maxWatchGap = 512

// watchPage is the size of a memory page, in bytes. A page can be read as a whole, or not at all.
const watchPage = 4096

// Watch is a list of the pieces of memory (Witness) from which a result was read. The result is valid until this memory
// changes. The zero value watches nothing. A Watch is not safe for concurrent use.
type Watch struct {
	witnesses []Witness
	buf       []byte
	pieces    []watchPiece
	// planned is true if this tick's system call also reads the watched ranges (Plan).
	planned bool
	ranges  []attach.Range
}

// watchPiece is a piece of memory that is read as one range, and the witnesses in it.
type watchPiece struct {
	addr     attach.Address
	size     int
	from, to int // indexes in witnesses
}

// Set makes the watch cover these witnesses.
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

// Plan appends the watched ranges to the ranges of a batch read. If one of them cannot be read, the caller must call
// Unplan, because the buffers are then invalid.
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
	// The caller may add more ranges, which can move the slice to other memory. So w.ranges keeps a copy of the watch's
	// ranges. The method named holds reads this copy.
	w.ranges = append(w.ranges[:0], ranges[at:]...)
	return ranges
}

// holds reports whether all watched memory is right. It calls the function agrees for each witness, with the memory
// that was just read for it. All ranges must have been read before.
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

// Unplan discards the plan of this tick. Call it if this tick does not read all ranges that Plan added, for example
// because a read failed.
func (w *Watch) Unplan() { w.planned = false }

// Stands reports whether all watched memory is unchanged. If Plan was called, it compares the memory that was read for
// Plan. Otherwise it reads the memory again. It returns false if the watch is empty or memory cannot be read. calls is
// the number of system calls made.
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

// Word returns the value that a watched word had when the watch was last read. ok is false if the word is not watched.
// If the last reading has failed in part, the value may be from an earlier reading.
func (w *Watch) Word(addr attach.Address) (word uint64, ok bool) {
	for i, p := range w.pieces {
		if addr >= p.addr && addr+8 <= p.addr+attach.Address(p.size) && i < len(w.ranges) {
			return view.U64(w.ranges[i].Buf[addr-p.addr:]), true
		}
	}
	return 0, false
}

// Confirm reads all watched memory again in one call, and reports whether it is unchanged. The same call also reads the
// ranges in before, ahead of the watched memory, and the ranges in behind, after it. Confirm returns false if a range
// cannot be read. The error comes from mem.
func (w *Watch) Confirm(o *Objects, mem attach.Memory, before, behind []attach.Range) (same bool, calls int, err error) {
	return w.confirm(o.Agrees, mem, before, behind)
}

// ConfirmKept does the same as Confirm, but allows that Hashes have got new pairs. Use it if new pairs do not matter
// for the result.
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
