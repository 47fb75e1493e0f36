package gvl

import "github.com/ddtop/ddtop/sampler"

// table keeps a record for each thread that is listed. A sample lists threads in a stable order, so the record is
// found by its place in the last sample, and by a map only when the list has changed.
type table[T any] struct {
	byID    map[sampler.ThreadID]*record[T]
	order   []*record[T]
	tick    uint64
	changed bool
	n       int
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

// end finishes the sample: gone is called for each thread that is no longer listed, and its record is dropped.
func (t *table[T]) end(gone func(*record[T])) {
	if !t.changed {
		return
	}
	for id, r := range t.byID {
		if r.tick == t.tick {
			continue
		}
		if gone != nil {
			gone(r)
		}
		delete(t.byID, id)
	}
}

// get returns the record of a listed thread, or nil.
func (t *table[T]) get(id sampler.ThreadID) *record[T] { return t.byID[id] }
