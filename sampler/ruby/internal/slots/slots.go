// Package slots reads slots, which lead to the frames of ZJIT on Ruby's development branch (head). This ZJIT does not
// write a frame's code (iseq) and position (pc) into the control frame. Instead, the control frame has the address of a
// slot on the native stack. The slot points to a JIT frame, which has iseq and pc (docs/internals/code.md#jits). ZJIT
// changes the slot whenever the frame calls a method. So one system call must read the slots, the frames, and the slots
// again.
package slots

import (
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/stackmem"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// slotGap is the largest gap between two slots, in bytes, at which both are read as one range. A second range costs
	// as much time as a few KiB more in the first range.
	slotGap = 1024
	// maxStaleSlot limits how far the slot of a frame that has returned may be from the slot of the next frame outward,
	// in bytes. ddtop ignores a slot that is farther away.
	maxStaleSlot = 2048
)

// span is a range of the native stack that holds slots.
type span struct {
	addr attach.Address
	off  int // offset in the buffers of the copies
	size int
}

// place is where a frame's slot is in the buffers: in which span, and at which offset. span is -1 if the frame has no
// slot.
type place struct{ span, off int }

// slotCopy is one copy of all spans, the ranges of the native stack that hold slots. first is the index of the copy's
// first range in the batch of reads.
type slotCopy struct {
	buf   []byte
	first int
}

// Slots reads the slots of one thread. Its zero value has no slots.
type Slots struct {
	// at has the addresses of the slots to read, one for each control frame, innermost first. An address is zero if the
	// frame has no slot. Learn has set the addresses from the frames of the last read. They are valid for the outermost
	// len(at) frames.
	at     []attach.Address
	places []place
	spans  []span
	size   int // the size of each copy's buffer
	// copies are the copies of the slots. Each copy contains all spans. Copies with an even index are read before the
	// frames, and copies with an odd index after them. taken is the number of copies in use.
	copies []slotCopy
	taken  int
	now    []attach.Address
	// Values are the contents of the slots of the frames that were read last, innermost first.
	Values []attach.Address
}

// Learn chooses the slots that the next read includes. Only the last n bytes of frames are frames on the stack. The
// bytes before them are left over from calls that have returned. Such calls often happen again, so their slots are
// read, too.
func (j *Slots) Learn(d *code.Decoder, frames []byte, n int) {
	j.now = d.JITSlots(frames, j.now[:0])
	last := attach.Address(0)
	for i := (len(frames)-n)/d.FrameSize() - 1; i >= 0; i-- {
		if last == 0 {
			last = j.innermost(i + 1)
		}
		if s := j.now[i]; s >= last || last-s > maxStaleSlot {
			j.now[i] = 0
		} else {
			last = s
		}
	}
	if slices.Equal(j.now, j.at) {
		return
	}
	j.at = append(j.at[:0], j.now...)
	j.layOut()
}

// innermost returns the slot of the first frame that has a slot, from frame i outward.
func (j *Slots) innermost(i int) attach.Address {
	for ; i < len(j.now); i++ {
		if j.now[i] != 0 {
			return j.now[i]
		}
	}
	return 0
}

// layOut assigns each slot to a span. Slots that are near each other in memory share a span.
func (j *Slots) layOut() {
	j.places, j.spans, j.size = j.places[:0], j.spans[:0], 0
	for _, slot := range j.at {
		if slot == 0 {
			j.places = append(j.places, place{span: -1})
			continue
		}
		if n := len(j.spans); n > 0 {
			s := &j.spans[n-1]
			if end := s.addr + attach.Address(s.size); slot >= end && slot-end <= slotGap {
				grown := int(slot-s.addr) + 8
				j.size += grown - s.size
				s.size = grown
				j.places = append(j.places, place{n - 1, s.off + grown - 8})
				continue
			}
		}
		j.places = append(j.places, place{len(j.spans), j.size})
		j.spans = append(j.spans, span{addr: slot, off: j.size, size: 8})
		j.size += 8
	}
}

// PlanBefore begins a reading of n copies. It adds to the batch the copies that are read before the frames.
func (j *Slots) PlanBefore(batch []attach.Range, n int) []attach.Range {
	j.taken = n
	if missing := n - len(j.copies); missing > 0 {
		j.copies = append(j.copies, make([]slotCopy, missing)...)
	}
	return j.plan(batch, 0)
}

// PlanBehind adds to the batch the copies that are read after the frames.
func (j *Slots) PlanBehind(batch []attach.Range) []attach.Range { return j.plan(batch, 1) }

func (j *Slots) plan(batch []attach.Range, from int) []attach.Range {
	for k := from; k < j.taken; k += 2 {
		c := &j.copies[k]
		c.buf, c.first = stackmem.Grow(c.buf, j.size), len(batch)
		for _, s := range j.spans {
			batch = append(batch, attach.Range{Addr: s.addr, Buf: c.buf[s.off : s.off+s.size]})
		}
	}
	return batch
}

// SameCode reports whether two JIT frames have the same iseq.
type SameCode func(a, b attach.Address) bool

// Take finds the content of the frames' slots in a batch that was read. drop is the number of innermost frames that
// must be dropped, because a slot was not read, or because its copies differ. torn is true if copies differ. The copies
// of the innermost frame's slot may differ if they lead to the same code, because the frame's pc changes while the
// thread runs.
func (j *Slots) Take(d *code.Decoder, same SameCode, batch []attach.Range, frames []byte) (drop int, torn bool) {
	j.now = d.JITSlots(frames, j.now[:0])
	n := len(j.now)
	j.Values = slices.Grow(j.Values[:0], n)[:n]
	clear(j.Values)
	for i := n - 1; i >= 0; i-- {
		if j.now[i] == 0 {
			continue
		}
		k := len(j.at) - n + i
		if k < 0 || j.at[k] != j.now[i] {
			return i + 1, false
		}
		v, read := j.value(same, batch, j.places[k], i == 0)
		if v == 0 {
			return i + 1, read
		}
		j.Values[i] = v
	}
	return 0, false
}

// value returns the content of a slot if all its copies agree. It returns zero if they differ, or if one could not be
// read. The copies of the innermost frame's slot may differ if they lead to the same code.
func (j *Slots) value(same SameCode, batch []attach.Range, p place, innermost bool) (v attach.Address, read bool) {
	for k := range j.copies[:j.taken] {
		c := &j.copies[k]
		if batch[c.first+p.span].Failed {
			return 0, false
		}
		w := attach.Address(view.U64(c.buf[p.off:]))
		if w == 0 || k > 0 && w != v && !(innermost && same(v, w)) {
			return 0, true
		}
		v = w
	}
	return v, true
}
