package gc

import (
	"cmp"
	"encoding/binary"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants limit one sample of new objects.
const (
	// maxNewSlots and maxNewBytes limit how much of a page's newest slots is read: the number of slots, and their size
	// in bytes.
	maxNewSlots = 512
	maxNewBytes = 32 << 10
	// maxSlotSize is the size of the largest slots in bytes: 640 up to 4.0, 1,024 after.
	maxSlotSize = 1024
	// classSnapshots is the number of samples after which CountClasses returns new counts.
	classSnapshots = 10
)

// classCounter estimates how many objects of each class are allocated. Each ractor fills one page of each heap with new
// objects. Up to 4.0, a page's free slots are a list from high to low addresses. So the slots above the first free slot
// are in use. After 4.0, slots are filled from low to high, up to a cursor. If a used slot has no mark of the
// collector, its object is new: the slot was filled since the ractor took the page. If the last call saw the same page,
// only slots filled since that call count (docs/internals/gc.md#which-classes).
type classCounter struct {
	ok bool
	newobjPlaces
	// n is the number of heaps in a ractor's cache. free is the offset of a heap's first free slot, or of the cursor up
	// to which its slots are filled.
	n, free   int
	ascending bool
	heapPage
	pageBytes uint64

	walk   walkNumber
	caches []classCache
	header []byte
	slots  []byte
	// last has the value of each allocation counter at the last call. carry has, for each counter, the part of its
	// growth that is not divided among classes yet (share).
	last, carry [maxPools]float64
	began       bool
	// counts has the numbers of new objects that the current call has found, by heap and class. One call finds few
	// different classes.
	counts  [maxPools]map[uint64]uint32
	parts   map[string]float64
	total   map[string]*sampler.AllocClass
	sums    sampler.AllocClasses
	looks   int
	current *sampler.AllocClasses
}

// newobjPlaces are the offsets of the words that say where Ruby puts the next new object. cacheAt is an offset in
// rb_ractor_struct. If byPointer is 1, a pointer to the ractor's cache is there. Otherwise the cache itself is there.
// heaps is the offset of the first heap in a cache, and stride the size of each heap. Up to 2.7 the only cache is in
// rb_objspace, at edenFree and edenPage.
type newobjPlaces struct {
	cacheAt   int    `layout:"rb_ractor_struct.newobj_cache,from=3.0"`
	byPointer uint64 `layout:"NEWOBJ_CACHE_IS_POINTER,from=3.0"`
	heaps     int    `layout:"ractor_newobj_cache.heaps,from=3.0"`
	stride    int    `layout:"sizeof ractor_newobj_heap_cache,from=3.0"`
	freeList  int    `layout:"ractor_newobj_heap_cache.freelist,optional"` // or cursor
	cursor    int    `layout:"ractor_newobj_heap_cache.cursor,optional"`
	page      int    `layout:"ractor_newobj_heap_cache.using_page,from=3.0"`
	edenFree  int    `layout:"rb_objspace.eden_heap.freelist,before=3.0"`
	edenPage  int    `layout:"rb_objspace.eden_heap.using_page,before=3.0"`
}

// heapPage has the offsets of the fields that ddtop reads in a page's header. slotSize is -1 if all slots have 40
// bytes.
type heapPage struct {
	pageStart  int          `layout:"heap_page.start"`
	totalSlots int          `layout:"heap_page.total_slots"`
	slotSize   int          `layout:"heap_page.slot_size,optional"`
	marks      layout.Field `layout:"heap_page.mark_bits"`
}

// pageBytes returns the size of a page, in bytes. It derives the size from the size of the page's mark bits, because
// there is one bit for each 40 bytes. The size is a power of two: 16 KiB up to 3.1, and 64 KiB from 3.2 on.
func pageBytes(marks layout.Field) uint64 {
	n := uint64(1 << 12)
	for n*2 <= uint64(marks.Size)*8*slotSize {
		n *= 2
	}
	return n
}

// node returns the offset of the two pointers that link a page with the other pages of its heap (page_node). It is
// negative if the offset is not known. The pointers come before wb_unprotected_bits, which come before the marks and
// have the same size (gc.c, 2.7 to 4.0).
func (p *heapPage) node() int { return p.marks.Offset - p.marks.Size - 16 }

// slots returns the address, size and number of a page's slots, from the page's header.
func (p *heapPage) slots(header []byte) (start attach.Address, size, total int) {
	size = slotSize
	if p.slotSize >= 0 {
		size = int(le16(header[p.slotSize:]))
	}
	return attach.Address(view.U64(header[p.pageStart:])), size, int(le16(header[p.totalSlots:]))
}

// classCache is the cache from which one ractor takes the slots of its new objects. The field at has, for each heap,
// the page and the position in the page that the last call found.
type classCache struct {
	addr attach.Address
	buf  []byte
	at   [maxPools]struct{ page, free uint64 }
}

// These keys count objects without a class (keyHidden) and Ruby's internal objects. All other keys are addresses of
// classes.
const (
	keyHidden   = 0
	keyInternal = 1
)

func (c *classCounter) init(t *Target, pools *gcPools) {
	if t.resolve(&c.newobjPlaces, &c.heapPage) != nil {
		return
	}
	if c.cacheAt < 0 {
		c.n, c.free, c.page = 1, 0, c.edenPage-c.edenFree
		c.ok = c.page > 0
	} else {
		c.n = max(pools.poolCount(), 1)
		c.free = c.freeList
		if c.free < 0 {
			c.free, c.ascending = c.cursor, true
		}
		c.ok = c.free >= 0
	}
	if !c.ok {
		return
	}
	c.pageBytes = pageBytes(c.marks)
	c.header = make([]byte, max(c.marks.Offset+c.marks.Size, c.pageStart+8, c.totalSlots+2, c.slotSize+2))
	c.slots = make([]byte, maxNewBytes)
	for i := range c.counts {
		c.counts[i] = make(map[uint64]uint32)
	}
	c.parts, c.total = make(map[string]float64), make(map[string]*sampler.AllocClass)
}

// CountClasses is the implementation of Reader.CountClasses in package ruby.
func (g *Reader) CountClasses(s *sampler.Sample) *sampler.AllocClasses {
	if !g.classes.ok || !s.GC.Valid || !g.alloc.known() {
		return nil
	}
	c := &g.classes
	// During marking, an old object may not have its mark yet, and would look like a new object. So count nothing.
	if s.GC.During || s.GC.Mode == sampler.GCMarking || s.GC.Mode == sampler.GCCompacting {
		return c.current
	}
	c.look(g)
	return c.current
}

func (c *classCounter) look(g *Reader) {
	counter := &g.alloc
	grown := false
	for h := range counter.n {
		now := float64(counter.totals[h])
		if d := now - c.last[h]; c.began && d > 0 { // up to 3.4, counts get lost if there are several ractors
			c.carry[h] += d
			grown = true
		}
		c.last[h] = now
	}
	if c.began && !grown {
		return
	}
	c.follow(g)
	for i := range c.caches {
		k := &c.caches[i]
		if g.Mem.Read(k.addr, k.buf) != nil {
			c.walk = 0 // the ractor has ended, so make follow search for the caches again
			continue
		}
		for h := range c.n {
			b := k.buf[h*c.stride:]
			page, free := view.U64(b[c.page:]), view.U64(b[c.free:])
			was := k.at[h]
			k.at[h].page, k.at[h].free = page, free
			if c.began && page != 0 && (page != was.page || free != was.free) {
				c.newObjects(g, min(h, counter.n-1), page, free, was.page, was.free)
			}
		}
	}
	if c.began {
		c.share(g)
	}
	c.began = true
}

// follow searches again for the caches from which ractors allocate objects, if there was a new walk over the ractors.
func (c *classCounter) follow(g *Reader) {
	if c.walk == g.walk && c.walk != 0 {
		return
	}
	c.walk = g.walk
	old := c.caches
	c.caches = nil
	add := func(addr attach.Address, size int) {
		k := classCache{addr: addr, buf: make([]byte, size)}
		for i := range old {
			if old[i].addr == addr {
				k.at = old[i].at
			}
		}
		c.caches = append(c.caches, k)
	}
	if c.cacheAt < 0 {
		add(g.Objspace+attach.Address(c.edenFree), c.page+8)
		return
	}
	for _, ractor := range g.ractors {
		addr := ractor + attach.Address(c.cacheAt)
		if c.byPointer != 0 {
			var p [8]byte
			if g.Mem.Read(addr, p[:]) != nil || view.U64(p[:]) == 0 {
				continue // the ractor has not started yet, or has ended
			}
			addr = attach.Address(view.U64(p[:]))
		}
		add(addr+attach.Address(c.heaps), c.n*c.stride)
	}
}

// maxFillingRactors limits how many ractors' pages FillingPages returns.
const maxFillingRactors = 8

// FillingPages appends to list the pages that ractors are filling with new objects now: one page of each heap, of the
// first maxFillingRactors ractors. It appends nothing if these pages cannot be found.
func (g *Reader) FillingPages(list []attach.Address) []attach.Address {
	c := &g.classes
	if !c.ok {
		return list
	}
	c.follow(g)
	for i := range c.caches[:min(len(c.caches), maxFillingRactors)] {
		k := &c.caches[i]
		if g.Mem.Read(k.addr, k.buf) != nil {
			c.walk = 0 // the ractor has ended, so make follow search for the caches again
			continue
		}
		for h := range c.n {
			if page := attach.Address(view.U64(k.buf[h*c.stride:][c.page:])); page != 0 {
				list = append(list, page)
			}
		}
	}
	return list
}

// newObjects counts the classes of the newest objects on a page that is being filled. free is the page's first free
// slot, or its cursor. wasPage and wasFree are the page and position that the last call found.
func (c *classCounter) newObjects(g *Reader, counter int, page, free, wasPage, wasFree uint64) {
	if g.Mem.Read(attach.Address(page), c.header) != nil {
		return // Ruby has freed the page, so its memory cannot be read
	}
	at, slot, n := c.heapPage.slots(c.header)
	start, size, total := uint64(at), uint64(slot), uint64(n)
	if size < minSlotSize || size > maxSlotSize || total == 0 || total*size > c.pageBytes {
		return // this memory does not have the header of a page
	}
	end := start + total*size
	lo, hi := start, end
	inside := func(at uint64) bool { return at >= start && at < end && (at-start)%size == 0 }
	if c.ascending {
		hi = free
		if page == wasPage && inside(wasFree) {
			lo = wasFree
		}
		if hi < lo || hi > end {
			return
		}
		lo = max(lo, hi-min(hi-lo, c.newest(size)))
	} else {
		if free != 0 {
			if !inside(free) {
				return
			}
			lo = free + size
		}
		if page == wasPage && inside(wasFree) {
			hi = wasFree + size
		}
		if hi < lo {
			return
		}
		hi = min(hi, lo+c.newest(size))
	}
	buf := c.slots[:hi-lo]
	if g.Mem.Read(attach.Address(lo), buf) != nil {
		return
	}
	counts := c.counts[counter]
	for at := lo; at < hi; at += size {
		slot := buf[at-lo:]
		kind := view.U64(slot) & heap.TypeMask
		if kind == heap.TypeNone || kind == heap.TypeMoved || c.marked(at, start, size) {
			continue
		}
		switch class := view.U64(slot[heap.BasicClass:]); {
		case kind >= heap.TypeImemo:
			counts[keyInternal]++
		case class == 0:
			counts[keyHidden]++
		default:
			counts[class]++
		}
	}
}

func (c *classCounter) newest(size uint64) uint64 { return min(maxNewSlots, maxNewBytes/size) * size }

func (c *classCounter) marked(at, start, size uint64) bool {
	bit := at & (c.pageBytes - 1) / slotSize
	if c.ascending {
		bit = (at - start) / size
	}
	return int(bit/8) < c.marks.Size && c.header[c.marks.Offset+int(bit/8)]>>(bit%8)&1 != 0
}

// share divides the growth of each counter among classes, in proportion to the new objects of each class found in the
// counter's heap.
func (c *classCounter) share(g *Reader) {
	clear(c.parts)
	whole := 0.0
	for h := range c.counts {
		var n uint32
		for _, k := range c.counts[h] {
			n += k
		}
		if n == 0 {
			continue
		}
		c.sums.Seen += uint64(n)
		whole += c.carry[h]
		for class, k := range c.counts[h] {
			c.parts[c.name(g, class)] += c.carry[h] * float64(k) / float64(n)
		}
		c.carry[h] = 0
		clear(c.counts[h])
	}
	if whole == 0 {
		return
	}
	c.sums.Instants++
	c.sums.Objects += whole
	c.sums.Squares += whole * whole
	for name, part := range c.parts {
		t := c.total[name]
		if t == nil && len(c.total) >= sampler.MaxAllocClasses-1 {
			name = sampler.AllocOthers
			t = c.total[name]
		}
		if t == nil {
			t = &sampler.AllocClass{Name: name}
			c.total[name] = t
		}
		t.Objects += part
		t.Squares += part * part
		t.Products += part * whole
	}
	if c.looks++; c.looks%classSnapshots == 1 {
		c.current = c.snapshot()
	}
}

func (c *classCounter) name(g *Reader, class uint64) string {
	switch class {
	case keyHidden:
		return sampler.AllocHidden
	case keyInternal:
		return sampler.AllocInternal
	}
	return g.Objects.NameOrKind(class)
}

// snapshot returns a copy of the counts, largest first.
func (c *classCounter) snapshot() *sampler.AllocClasses {
	s := c.sums
	s.Classes = make([]sampler.AllocClass, 0, len(c.total))
	for _, t := range c.total {
		s.Classes = append(s.Classes, *t)
	}
	sorting.By(s.Classes, func(a, b sampler.AllocClass) int {
		return cmp.Or(cmp.Compare(b.Objects, a.Objects), cmp.Compare(a.Name, b.Name))
	})
	return &s
}

func le16(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }
