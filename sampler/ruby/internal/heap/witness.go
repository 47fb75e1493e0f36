package heap

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxWitnesses limits how many witnesses one result has. A witness is a piece of memory from which the result was read.
// For example, a cached iseq has witnesses of its paths, its names, its lines and the names of the code around it.
const maxWitnesses = 64

// Witness is a piece of memory from which a cached result was read, with a checksum of its content. With the checksum,
// a later check shows whether the content has changed.
type Witness struct {
	Addr attach.Address
	Size uint32 // in bytes
	// Mask selects the bits of the first word that are compared. first holds these bits, and sum is the checksum of the
	// other words. If Mask is zero, sum includes the first word. Mask is used for an object's flags. Only the bits with
	// the object's type are compared, because other bits change with its age.
	Mask       uint64
	first, sum uint64
	// grows is true for a counter of entries, if Ruby only adds entries. If the counter is larger later, entries were
	// added, but the earlier entries are unchanged.
	grows bool
}

// Record makes Objects append a witness to *into for each piece of memory that it reads and notes. This ends with the
// next call of Record. If into is nil, nothing is recorded.
func (o *witnesses) Record(into *[]Witness) { o.notes = into }

// Note records a witness: the memory at addr had the content b. If mask is not 0, a later check compares only the bits
// in mask of the first word.
func (o *witnesses) Note(addr attach.Address, b []byte, mask uint64) {
	if o.notes == nil || len(b) == 0 || len(*o.notes) >= maxWitnesses {
		return
	}
	if slices.ContainsFunc(*o.notes, func(w Witness) bool { return w.Addr == addr }) {
		return // this memory is already noted, for example because a String is used twice
	}
	w := Witness{Addr: addr, Size: uint32(len(b)), Mask: mask}
	if mask != 0 {
		w.first = view.U64(b) & mask
		b = b[8:]
	}
	w.sum = maphash.Bytes(o.seed, b)
	*o.notes = append(*o.notes, w)
}

// noteWord notes a word as a witness: a piece of memory that is compared later. Only the bits in mask are compared.
func (o *witnesses) noteWord(addr attach.Address, w, mask uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], w)
	o.Note(addr, b[:], mask)
}

// NoteWord notes a word as a witness, to compare it later. It is for a word that the caller has not read through the
// view.
func (o *witnesses) NoteWord(addr attach.Address, w uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], w)
	o.Note(addr, b[:], 0)
}

// noteGrowing notes a counter of entries as a witness. A later check can allow that the counter has increased
// (agreesOrGrew).
func (o *witnesses) noteGrowing(addr attach.Address, n uint64) {
	if o.notes == nil {
		return
	}
	before := len(*o.notes)
	if o.noteWord(addr, n, math.MaxUint64); len(*o.notes) > before {
		(*o.notes)[before].grows = true
	}
}

// Word reads a word and notes it as a witness.
func (o *witnesses) Word(addr attach.Address) (uint64, error) { return o.notedWord(addr) }

func (o *witnesses) notedWord(addr attach.Address) (uint64, error) {
	b, err := o.View.Bytes(addr, 8)
	if err != nil {
		return 0, err
	}
	o.Note(addr, b, 0)
	return view.U64(b), nil
}

// Recorded reports whether the list witnesses is complete. If the list is full, it counts as incomplete, because more
// memory may have been read.
func Recorded(witnesses []Witness) bool { return len(witnesses) < maxWitnesses }

// Unchanged reads all noted memory again, and reports whether it is unchanged. If it is, all results that were read
// from it were true at one moment, although they were read piece by piece. Unchanged returns false if there was too
// much memory to note all of it. The error means that the target cannot be read.
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

// agreesOrGrew does the same as Agrees, but also returns true for a counter that has increased.
func (o *witnesses) agreesOrGrew(w *Witness, b []byte) bool {
	if w.grows {
		return view.U64(b) >= w.first
	}
	return o.Agrees(w, b)
}

// Agrees reports whether the memory of a witness is unchanged. b is the memory as it was just read.
func (o *witnesses) Agrees(w *Witness, b []byte) bool {
	if w.Mask != 0 {
		if view.U64(b)&w.Mask != w.first {
			return false
		}
		b = b[8:]
	}
	return maphash.Bytes(o.seed, b) == w.sum
}
