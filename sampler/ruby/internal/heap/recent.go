package heap

// firstSlots is the number of slots with which a Recent begins. It is a power of two.
const firstSlots = 64

// Recent is a cache of recently used keys. Each key can be in only one slot, and several keys share a slot (a
// direct-mapped cache). The cache begins small, and grows while keys push each other out. So it needs a few hundred
// bytes for an idle worker, and hundreds of kilobytes only for a program with thousands of methods. The zero value is
// empty.
type Recent[S any] struct {
	slots []S
	lost  int
}

// At returns the slot for a hash. The slot may have another key. The pointer is valid until the next call of Lose.
func (r *Recent[S]) At(hash uint64) *S {
	if r.slots == nil {
		r.slots = make([]S, firstSlots)
	}
	return &r.slots[hash&uint64(len(r.slots)-1)]
}

// Lose returns the slot for a hash, so that the caller can replace the key in it by another key. If more keys were
// replaced than there are slots, Lose first doubles the number of slots. This empties all slots. The parameter most
// limits the number of slots. It must be a power of two.
func (r *Recent[S]) Lose(hash uint64, most int) *S {
	if r.lost++; r.lost > len(r.slots) && len(r.slots) < most {
		r.slots, r.lost = make([]S, 2*len(r.slots)), 0
	}
	return r.At(hash)
}

// Clear empties all slots.
func (r *Recent[S]) Clear() { clear(r.slots) }
