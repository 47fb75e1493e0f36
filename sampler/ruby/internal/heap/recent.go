package heap

// firstSlots is the number of slots of a Recent at first. It is a power of two.
const firstSlots = 64

// Recent is a direct-mapped table of the entries that were used last. A key has one slot, which it shares with other
// keys. The table begins small and grows while keys take slots from each other. So an idle worker has a few hundred
// bytes, and not the hundreds of kilobytes that a program with thousands of methods needs. The zero value is empty.
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

// Lose returns the slot of a hash whose present key is about to be replaced by another. If this has happened as often
// as there are slots, Lose first doubles their number, up to most, a power of two. Then all slots are empty.
func (r *Recent[S]) Lose(hash uint64, most int) *S {
	if r.lost++; r.lost > len(r.slots) && len(r.slots) < most {
		r.slots, r.lost = make([]S, 2*len(r.slots)), 0
	}
	return r.At(hash)
}

// Clear empties all slots.
func (r *Recent[S]) Clear() { clear(r.slots) }
