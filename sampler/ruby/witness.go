package ruby

import (
	"hash/maphash"
	"slices"

	"github.com/ddtop/ddtop/attach"
)

// maxWitnesses bounds what is noted for one piece of code: its paths, its names, those of what it is in, and its lines.
const maxWitnesses = 64

// witness is a piece of memory that something kept was made from. What it said is kept as a sum alone.
type witness struct {
	addr attach.Address
	size uint32
	// first holds the bits of the first word that count; mask says which these are, 0: the word is part of the sum. Of an
	// object's flags those count that say what it is; others change with its age.
	mask, first uint64
	sum         uint64
}

// note writes down, for what is being loaded, that b was read at addr, of an object when mask is not 0.
func (d *Decoder) note(addr attach.Address, b []byte, mask uint64) {
	if d.notes == nil || len(b) == 0 || len(*d.notes) >= maxWitnesses {
		return
	}
	if slices.ContainsFunc(*d.notes, func(w witness) bool { return w.addr == addr }) {
		return // an embedded string, or one that stands for both names
	}
	w := witness{addr: addr, size: uint32(len(b)), mask: mask}
	if mask != 0 {
		w.first = le64(b) & mask
		b = b[8:]
	}
	w.sum = maphash.Bytes(d.seed, b)
	*d.notes = append(*d.notes, w)
}

// agrees reports whether the memory that was just read says what it said then.
func (w *witness) agrees(seed maphash.Seed, b []byte) bool {
	if w.mask != 0 {
		if le64(b)&w.mask != w.first {
			return false
		}
		b = b[8:]
	}
	return maphash.Bytes(seed, b) == w.sum
}
