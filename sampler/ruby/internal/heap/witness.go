package heap

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxWitnesses bounds the pieces of memory that one kept iseq depends on: its paths, its names, the names of the code
// around it, and its lines.
const maxWitnesses = 64

// Witness is a piece of memory that a kept answer was made from. Only a sum of its content is kept.
type Witness struct {
	Addr attach.Address
	Size uint32 // in bytes
	// Mask selects the bits of the first word that are compared. first holds these bits, and sum the checksum of the
	// other words. If Mask is zero, the first word is part of the checksum. In an object's flags only the bits for its
	// kind are compared, because others change with its age.
	Mask       uint64
	first, sum uint64
	// grows is true for a counter of a structure that only grows. Then a larger value means that entries were added,
	// and that the earlier entries are unchanged.
	grows bool
}

// Record makes Objects note in into the memory of Strings, Arrays and names of classes that it reads, until the next
// call of Record. If into is nil, nothing is noted.
func (o *witnesses) Record(into *[]Witness) { o.notes = into }

// Note notes that b was read at addr. If mask is not 0, b is the beginning of an object.
func (o *witnesses) Note(addr attach.Address, b []byte, mask uint64) {
	if o.notes == nil || len(b) == 0 || len(*o.notes) >= maxWitnesses {
		return
	}
	if slices.ContainsFunc(*o.notes, func(w Witness) bool { return w.Addr == addr }) {
		return // an embedded string, or one that stands for both names
	}
	w := Witness{Addr: addr, Size: uint32(len(b)), Mask: mask}
	if mask != 0 {
		w.first = view.U64(b) & mask
		b = b[8:]
	}
	w.sum = maphash.Bytes(o.seed, b)
	*o.notes = append(*o.notes, w)
}

// noteWord writes down the bits of a word that mask has.
func (o *witnesses) noteWord(addr attach.Address, w, mask uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], w)
	o.Note(addr, b[:], mask)
}

// NoteWord writes down a word that was read otherwise than through the view.
func (o *witnesses) NoteWord(addr attach.Address, w uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], w)
	o.Note(addr, b[:], 0)
}

// noteGrowing notes a number that grows when entries are added.
func (o *witnesses) noteGrowing(addr attach.Address, n uint64) {
	if o.notes == nil {
		return
	}
	before := len(*o.notes)
	if o.noteWord(addr, n, math.MaxUint64); len(*o.notes) > before {
		(*o.notes)[before].grows = true
	}
}

// Word reads a word and writes it down as a witness.
func (o *witnesses) Word(addr attach.Address) (uint64, error) { return o.notedWord(addr) }

func (o *witnesses) notedWord(addr attach.Address) (uint64, error) {
	b, err := o.View.Bytes(addr, 8)
	if err != nil {
		return 0, err
	}
	o.Note(addr, b, 0)
	return view.U64(b), nil
}

// Recorded reports whether all that was read is among witnesses.
func Recorded(witnesses []Witness) bool { return len(witnesses) < maxWitnesses }

// Unchanged reads all noted memory again in one call, and reports whether it is unchanged. If it is, all results that
// were made from it were true at one moment, although they were read piece by piece. It also returns false if more
// memory was read than noted. The error means that the target cannot be read.
func (o *witnesses) Unchanged(witnesses []Witness) (bool, error) {
	if !Recorded(witnesses) {
		return false, nil
	}
	same := true
	err := o.Read(func() error {
		same = true
		var missing error
		for i := range witnesses {
			w := &witnesses[i]
			b, err := o.View.Bytes(w.Addr, int(w.Size))
			if err == view.ErrMissing {
				missing = err
			} else if err != nil || !o.Agrees(w, b) {
				same = false
			}
		}
		return missing
	})
	return same, err
}

// agreesOrGrew is Agrees, but a structure may have grown.
func (o *witnesses) agreesOrGrew(w *Witness, b []byte) bool {
	if w.grows {
		return view.U64(b) >= w.first
	}
	return o.Agrees(w, b)
}

// Agrees reports whether the memory of a witness that was just read is unchanged.
func (o *witnesses) Agrees(w *Witness, b []byte) bool {
	if w.Mask != 0 {
		if view.U64(b)&w.Mask != w.first {
			return false
		}
		b = b[8:]
	}
	return maphash.Bytes(o.seed, b) == w.sum
}
