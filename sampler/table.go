package sampler

import "unsafe"

const (
	// pageSize is the number of entries that are freed together. Entries made at one time mostly end together.
	pageSize = 512
	// maxTableID is the last ID given; past it the table is full, whatever was evicted.
	maxTableID = 1<<32 - pageSize - 1
)

// table holds entries by ID, from 1 on. IDs are given once; entries can be evicted.
type table[T any] struct {
	pages []*page[T] // nil if all of its entries are evicted
	last  uint32     // the last ID given
	live  int
}

type page[T any] struct {
	entries [pageSize]T
	// used is the generation in which an entry was used last. It is zero if there is none.
	used [pageSize]Generation
	live int
}

// at returns an entry. It returns nil for 0, and for an ID that is unknown or evicted.
func (t *table[T]) at(id uint32) *T {
	i := id / pageSize
	if int(i) >= len(t.pages) || t.pages[i] == nil || t.pages[i].used[id%pageSize] == 0 {
		return nil
	}
	return &t.pages[i].entries[id%pageSize]
}

func (t *table[T]) pageBytes() int64 { return int64(unsafe.Sizeof(page[T]{})) }

// next is the memory that the next entry takes beside itself: a page, where it is the first of one.
func (t *table[T]) next() int64 {
	if int((t.last+1)/pageSize) == len(t.pages) {
		return t.pageBytes()
	}
	return 0
}

// add makes an entry, in use now. It returns its ID, zero if none is left, and the memory that it took as next says.
func (t *table[T]) add(v T, now Generation) (id uint32, bytes int64) {
	if t.last >= maxTableID {
		return 0, 0
	}
	bytes = t.next()
	t.last++
	i := t.last / pageSize
	if int(i) == len(t.pages) {
		t.pages = append(t.pages, new(page[T]))
	}
	p := t.pages[i]
	p.entries[t.last%pageSize], p.used[t.last%pageSize] = v, now
	p.live++
	t.live++
	return t.last, bytes
}

func (t *table[T]) use(id uint32, now Generation) {
	if i := id / pageSize; int(i) < len(t.pages) && t.pages[i] != nil {
		if u := &t.pages[i].used[id%pageSize]; *u != 0 && *u < now {
			*u = now
		}
	}
}

// evict takes the entries away that were not used since a generation, those given last first. keep is called for each
// that stays with the generation of its last use, drop for each that goes. It returns the memory of the pages that
// went.
func (t *table[T]) evict(before Generation, keep func(v *T, used Generation), drop func(v *T)) (bytes int64) {
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
					keep(&p.entries[j], u)
				}
			default:
				drop(&p.entries[j])
				p.entries[j], p.used[j] = zero, 0
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
