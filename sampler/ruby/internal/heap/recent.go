package heap

// firstSlots is the number of slots with which a Recent begins. It is a power of two.
const firstSlots = 64

// Recent is a direct-mapped cache. A key has one slot, which it shares with other keys. The cache begins small and
// grows while keys push each other out. So it needs a few hundred bytes for an idle worker, and hundreds of kilobytes
// only for a program with thousands of methods. The zero value is empty.
type Recent[S any] struct {
	slots []S
	lost  int
}

// At returns the slot of a hash, which may hold another key. It is valid until the next call of Lose.
func (r *Recent[S]) At(hash uint64) *S {
	if r.slots == nil {
		r.slots = make([]S, firstSlots)
	}
	return &r.slots[hash&uint64(len(r.slots)-1)]
}

// Lose returns the slot of a hash for a new key, which replaces the slot's present key. If more keys were replaced
// than there are slots, Lose first doubles the number of slots, up to the parameter most. This empties all slots. most
// must be a power of two.
func (r *Recent[S]) Lose(hash uint64, most int) *S {
	if r.lost++; r.lost > len(r.slots) && len(r.slots) < most {
		r.slots, r.lost = make([]S, 2*len(r.slots)), 0
	}
	return r.At(hash)
}

// Clear empties all slots.
func (r *Recent[S]) Clear() { clear(r.slots) }
