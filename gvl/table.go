package gvl

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// table keeps a record for each thread that is listed. A sample lists threads in a stable order, so the record is
// found by its place in the last sample, and by a map only when the list has changed.
type table[T any] struct {
	byID    map[sampler.ThreadID]*record[T]
	order   []*record[T]
	tick    uint64
	changed bool
	n       int
	gone    []sampler.ThreadID
}

type record[T any] struct {
	id   sampler.ThreadID
	tick uint64
	v    T
}

func newTable[T any]() table[T] {
	return table[T]{byID: make(map[sampler.ThreadID]*record[T])}
}

// begin starts a sample of n threads.
func (t *table[T]) begin(n int) {
	t.tick++
	t.changed = n != len(t.order)
	t.n = n
	if n < len(t.order) {
		clear(t.order[n:])
		t.order = t.order[:n]
	}
}

// again starts a sample of the same threads as in the last one. No record is asked for.
func (t *table[T]) again() { t.changed = false }

// at returns the record of the i-th thread; fresh is true when the thread was not listed before. Places must be asked
// for in order. A thread listed twice (in a damaged recording) gets no second record, but nil.
func (t *table[T]) at(i int, id sampler.ThreadID) (r *record[T], fresh bool) {
	if i < len(t.order) {
		if r = t.order[i]; r.id == id && r.tick != t.tick {
			r.tick = t.tick
			return r, false
		}
	}
	t.changed = true
	r, ok := t.byID[id]
	if !ok {
		r = &record[T]{id: id}
		t.byID[id] = r
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

// end finishes the sample: gone is called for each thread that is no longer listed, in order of their IDs, and its record is dropped.
func (t *table[T]) end(gone func(*record[T])) {
	if !t.changed {
		return
	}
	t.gone = t.gone[:0]
	for id, r := range t.byID {
		if r.tick != t.tick {
			t.gone = append(t.gone, id)
		}
	}
	slices.Sort(t.gone)
	for _, id := range t.gone {
		if gone != nil {
			gone(t.byID[id])
		}
		delete(t.byID, id)
	}
}

// all returns the records of all threads that are listed or not yet known to be gone, in order of their IDs.
func (t *table[T]) all() []*record[T] {
	return slices.SortedFunc(maps.Values(t.byID), func(a, b *record[T]) int { return cmp.Compare(a.id, b.id) })
}

// get returns the record of a listed thread, or nil.
func (t *table[T]) get(id sampler.ThreadID) *record[T] { return t.byID[id] }
