// Package intern gives equal values the same ID, and removes values that were not used for a while. The values can be
// of any kind. A Dictionary of package sampler has a Table for each kind of entry.
package intern

import (
	"hash/maphash"
	"unsafe"
)

// Generation is the number of a period of time. The first period has the number 1. For each value, a Table stores the
// generation in which it was last used.
type Generation uint32

const (
	// pageSize is the number of values whose memory is freed together. Values that were added together are mostly
	// removed together.
	pageSize = 512
	// maxTableID is the largest possible ID. After this ID the Table is full, even if values were removed, because no
	// ID is used twice.
	maxTableID = 1<<32 - pageSize - 1
)

// Table maps IDs, from 1 on, to values, and values to IDs. It uses each ID for only one value, even after that value is
// evicted. Only one goroutine at a time may use a Table.
type Table[T comparable, ID ~uint32] struct {
	// ids has the newest ID for each hash of a value. A map with the values themselves as keys would store each value
	// twice. If two values had the same hash, the older value would not be found, and could get another ID. This does
	// not happen in practice, because a hash has 64 bits and a random seed.
	ids   map[uint64]ID
	hash  func(T) uint64
	pages []*page[T] // an element is nil if all its values are evicted
	last  uint32     // the last ID given
	live  int
	cost  func(T) int64
}

// New returns an empty Table. The function cost returns the memory of a value in bytes, without its place in the
// Table's page.
func New[T comparable, ID ~uint32](cost func(T) int64) Table[T, ID] {
	seed := maphash.MakeSeed()
	return Table[T, ID]{ids: make(map[uint64]ID), hash: func(v T) uint64 { return maphash.Comparable(seed, v) }, cost: cost}
}

type page[T any] struct {
	values [pageSize]T
	// used has the generation in which each value was last used. A generation of zero means that there is no value.
	used [pageSize]Generation
	live int
}

// At returns the value with an ID. It returns nil for 0, and for an ID that is unknown or whose value was evicted.
func (t *Table[T, ID]) At(id ID) *T {
	i := uint32(id) / pageSize
	if int(i) >= len(t.pages) || t.pages[i] == nil || t.pages[i].used[uint32(id)%pageSize] == 0 {
		return nil
	}
	return &t.pages[i].values[uint32(id)%pageSize]
}

// Len returns the number of values that have not been evicted.
func (t *Table[T, ID]) Len() int { return t.live }

// Last returns the newest ID. It is zero if the Table has no ID yet.
func (t *Table[T, ID]) Last() ID { return ID(t.last) }

// Find returns the ID of a value, and records that the value is used now. It returns zero if the value has no ID.
func (t *Table[T, ID]) Find(v T, now Generation) ID {
	id := t.ids[t.hash(v)]
	if at := t.At(id); at == nil || *at != v {
		return 0
	}
	t.Use(id, now)
	return id
}

// Needs returns by how many bytes the Table would grow if a value were added.
func (t *Table[T, ID]) Needs(v T) int64 { return t.cost(v) + t.nextPage() }

// nextPage returns how much memory a new page takes, if the next value needs one. Otherwise it returns zero.
func (t *Table[T, ID]) nextPage() int64 {
	if int((t.last+1)/pageSize) == len(t.pages) {
		return t.pageBytes()
	}
	return 0
}

func (t *Table[T, ID]) pageBytes() int64 { return int64(unsafe.Sizeof(page[T]{})) }

// Add gives a new ID to a value that is not in the Table, and records that the value is used now. It returns zero if no
// ID is left.
func (t *Table[T, ID]) Add(v T, now Generation) ID {
	if t.last >= maxTableID {
		return 0
	}
	t.last++
	i, at := t.last/pageSize, t.last%pageSize
	if int(i) == len(t.pages) {
		t.pages = append(t.pages, new(page[T]))
	}
	p := t.pages[i]
	p.values[at], p.used[at] = v, now
	p.live++
	t.live++
	t.ids[t.hash(v)] = ID(t.last)
	return ID(t.last)
}

// Use records that the value with an ID is used now. It does nothing for 0, and for an ID that is unknown or whose
// value was evicted.
func (t *Table[T, ID]) Use(id ID, now Generation) {
	if i := uint32(id) / pageSize; int(i) < len(t.pages) && t.pages[i] != nil {
		if u := &t.pages[i].used[uint32(id)%pageSize]; *u != 0 && *u < now {
			*u = now
		}
	}
}

// Evict removes the values that were last used before a generation, the newest ID first. It returns the freed bytes.
// For each other value, Evict calls keep with the generation of the value's last use. The function keep may be nil.
func (t *Table[T, ID]) Evict(before Generation, keep func(v *T, used Generation)) (bytes int64) {
	var zero T
	for i := len(t.pages) - 1; i >= 0; i-- {
		p := t.pages[i]
		if p == nil {
			continue
		}
		for j := pageSize - 1; j >= 0; j-- {
			switch u := p.used[j]; {
			case u == 0:
			case u >= before:
				if keep != nil {
					keep(&p.values[j], u)
				}
			default:
				bytes += t.cost(p.values[j])
				t.forget(p.values[j], ID(i*pageSize+j))
				p.values[j], p.used[j] = zero, 0
				p.live--
				t.live--
			}
		}
		if p.live == 0 && i != len(t.pages)-1 {
			t.pages[i] = nil
			bytes += t.pageBytes()
		}
	}
	return bytes
}

// forget removes a value from ids, unless ids has the ID of another value with the same hash.
func (t *Table[T, ID]) forget(v T, id ID) {
	if h := t.hash(v); t.ids[h] == id {
		delete(t.ids, h)
	}
}
