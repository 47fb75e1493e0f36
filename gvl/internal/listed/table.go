package listed

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// Table keeps a record for each listed thread. Samples usually list the same threads in the same order. So the record
// of a thread is usually found by the thread's index in the last sample. The map is needed only if the list has
// changed.
type Table[T any] struct {
	ByID    map[sampler.ThreadID]*Record[T]
	order   []*Record[T]
	tick    uint64
	Changed bool
	n       int
	gone    []sampler.ThreadID
}

type Record[T any] struct {
	id   sampler.ThreadID
	tick uint64
	V    T
}

// New returns an empty Table.
func New[T any]() Table[T] {
	return Table[T]{ByID: make(map[sampler.ThreadID]*Record[T])}
}

// Begin starts a sample with n threads.
func (t *Table[T]) Begin(n int) {
	t.tick++
	t.Changed = n != len(t.order)
	t.n = n
	if n < len(t.order) {
		clear(t.order[n:])
		t.order = t.order[:n]
	}
}

// BeginSame starts a sample that lists the same threads as the last one, in the same order. It replaces Begin and all
// calls of Find.
func (t *Table[T]) BeginSame() { t.Changed = false }

// Find returns the record of the i-th thread of the sample. fresh is set if the thread was not listed before. Callers
// must call it in the order of the threads. If a damaged recording lists a thread twice, r is nil the second time.
func (t *Table[T]) Find(i int, id sampler.ThreadID) (r *Record[T], fresh bool) {
	if i < len(t.order) {
		if r = t.order[i]; r.id == id && r.tick != t.tick {
			r.tick = t.tick
			return r, false
		}
	}
	t.Changed = true
	r, ok := t.ByID[id]
	if !ok {
		r = &Record[T]{id: id}
		t.ByID[id] = r
	}
	again := r.tick == t.tick
	r.tick = t.tick
	if i < len(t.order) {
		t.order[i] = r
	} else {
		t.order = append(t.order, r)
	}
	if again {
		return nil, false
	}
	return r, !ok
}

// End ends the sample. It drops the records of the threads that this sample does not list, and calls gone for each of
// them, in order of IDs.
func (t *Table[T]) End(gone func(*Record[T])) {
	if !t.Changed {
		return
	}
	t.gone = t.gone[:0]
	for id, r := range t.ByID {
		if r.tick != t.tick {
			t.gone = append(t.gone, id)
		}
	}
	slices.Sort(t.gone)
	for _, id := range t.gone {
		if gone != nil {
			gone(t.ByID[id])
		}
		delete(t.ByID, id)
	}
}

// All returns the records of all threads, in order of IDs. Until End is called, this includes threads that the present
// sample does not list.
func (t *Table[T]) All() []*Record[T] {
	return slices.SortedFunc(maps.Values(t.ByID), func(a, b *Record[T]) int { return cmp.Compare(a.id, b.id) })
}

// Get returns the record of a thread, or nil if it is not listed.
func (t *Table[T]) Get(id sampler.ThreadID) *Record[T] { return t.ByID[id] }
