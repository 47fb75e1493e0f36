package gc

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// These constants limit a walk over the heap.
const (
	// maxHeapPages limits the length of the list of the heap's pages. maxHeapBytes limits how many bytes of the pages
	// are read. Reading maxHeapBytes takes about half a second of a CPU.
	maxHeapPages = 1 << 18
	maxHeapBytes = 1 << 30
	// pagesAtOnce is the number of pages read with one call. maxHeapPage is the size of a page from 3.2 on, in bytes.
	// Pages of earlier releases are smaller.
	pagesAtOnce = 8
	maxHeapPage = 64 << 10
	// maxListTries limits how often AllPages reads the list of pages, and betweenLists is the time between two tries.
	// A collection that frees pages usually ends within milliseconds.
	maxListTries = 1000
	betweenLists = time.Millisecond
	// maxListReads limits how often pagesOnce reads a list that grows or shrinks.
	maxListReads = 8
)

// pageList has the offsets of the list of the heap's pages, and of the list's length. If the release has the field
// counted (3.4 and later), the list is a dynamic array. The array begins with two words, the first of which is its
// length. Its elements follow.
type pageList struct {
	sorted  int `layout:"rb_objspace.heap_pages.sorted"`
	pages   int `layout:"rb_objspace.heap_pages.allocated_pages"`
	counted int `layout:"rb_objspace.empty_pages_count,optional"`
	heapPage
}

// EachPage calls f with the content of each page of the heap whose slots have at most maxSlot bytes, until f returns
// false. cut is true if the heap has more pages or bytes than the limits. The error is from ctx or from Pages.
func (g *Reader) EachPage(ctx context.Context, maxSlot int, f func(page attach.Range, slotSize int) (more bool),
) (cut bool, err error) {
	list, cut, err := g.AllPages(ctx)
	if err != nil {
		return cut, err
	}
	left := maxHeapBytes
	for chunk := range slices.Chunk(list, pagesAtOnce) {
		if ctx.Err() != nil {
			return cut, ctx.Err()
		}
		more := true
		err := g.ReadPages(chunk, maxSlot, func(_ attach.Address, page attach.Range, size int) bool {
			if left -= len(page.Buf); left < 0 {
				cut, more = true, false
			}
			more = more && f(page, size)
			return more
		})
		if err != nil || !more {
			return cut, err
		}
	}
	return cut, nil
}

// ReadPages calls f with the content of pages in list, until f returns false. It reads at most pagesAtOnce pages, and
// only pages whose slots have at most maxSlot bytes. header is the page's address in list. Pages that cannot be read
// are left out. The content is valid only during the call of f. The errors are the same as for Pages.
func (g *Reader) ReadPages(list []attach.Address, maxSlot int, f func(header attach.Address, page attach.Range, slotSize int) (more bool)) error {
	r := &g.pages
	if r.slots == nil {
		if err := g.resolve(&r.heapPage); err != nil {
			return err
		}
		r.size = max(r.pageStart+8, r.totalSlots+2, r.slotSize+2)
		r.headers, r.slots = make([]byte, pagesAtOnce*r.size), make([]byte, pagesAtOnce*maxHeapPage)
	}
	list = list[:min(len(list), pagesAtOnce)]
	r.ranges = r.ranges[:0]
	for i, page := range list {
		r.ranges = append(r.ranges, attach.Range{Addr: page, Buf: r.headers[i*r.size:][:r.size]})
	}
	if err := r.read(g, r.ranges); err != nil {
		return err
	}
	r.content, r.of = r.content[:0], r.of[:0]
	for i, header := range r.ranges {
		start, size, total := r.heapPage.slots(header.Buf)
		// the page was freed
		if header.Failed || total == 0 || size < slotSize || size > maxSlot || total*size > maxHeapPage {
			continue
		}
		r.content = append(r.content, attach.Range{Addr: start, Buf: r.slots[len(r.content)*maxHeapPage:][:total*size]})
		r.of = append(r.of, pageOf{list[i], size})
	}
	if err := r.read(g, r.content); err != nil {
		return err
	}
	for i := range r.content {
		if !r.content[i].Failed && !f(r.of[i].header, r.content[i], r.of[i].size) {
			break
		}
	}
	return nil
}

// pageReads holds the buffers for reading pages.
type pageReads struct {
	heapPage
	size            int // of a header, in bytes
	headers, slots  []byte
	ranges, content []attach.Range
	of              []pageOf
}

// pageOf describes the page that one of pageReads.content belongs to: its address, and the size of its slots in bytes.
type pageOf struct {
	header attach.Address
	size   int
}

func (r *pageReads) read(g *Reader, ranges []attach.Range) error {
	calls, err := g.Mem.ReadBatch(ranges)
	g.Reads.Calls += uint64(calls)
	return err
}

// AllPages is like Pages, but its list lacks no page that existed before the call. Up to 3.3, Ruby first shortens the
// list by one for each page that it frees, and then moves the other pages forward (gc.c, heap_pages_free_unused_pages).
// Until it has moved them, the last pages are beyond the end. Ruby does this at the end of sweeping. So AllPages reads
// the list again, up to maxListTries times, while the collector sweeps. A stopped process can stay in this state, and
// then pages are missing. The error is from ctx or from Pages.
func (g *Reader) AllPages(ctx context.Context) (list []attach.Address, cut bool, err error) {
	for range maxListTries {
		sweeps := g.sweepsNow()
		list, cut, err = g.Pages()
		if err != nil || !sweeps && !g.sweepsNow() {
			break
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-time.After(betweenLists):
		}
	}
	return list, cut, err
}

// sweepsNow reports whether a thread executes the collector's code now, and the collector does not mark. It is false
// between the steps of lazy sweeping, and if the flags cannot be read.
func (g *Reader) sweepsNow() bool {
	at, during := g.Collects()
	var buf [8]byte
	if g.Mem.Read(at, buf[:]) != nil {
		return false
	}
	word := view.U64(buf[:])
	return word>>during.BitOffset&(1<<during.BitSize-1) != 0 && g.KeepsUsed(word)
}

// Pages reads the addresses of the heap's pages, in order and without duplicates. When Ruby adds or removes a page, it
// moves a part of its list (gc.c, heap_page_allocate and heap_pages_free_unused_pages). A reading at this moment can
// have one page twice and lack another. So Pages reads the list twice and returns the union. While Ruby frees pages,
// the list can lack more pages (AllPages). cut is true if the heap has more than maxHeapPages. An error means that the
// list cannot be read, or that the release's table lacks the list's place.
func (g *Reader) Pages() (list []attach.Address, cut bool, err error) {
	var places pageList
	if err := g.resolve(&places); err != nil {
		return nil, false, err
	}
	for range 2 {
		once, more, err := g.pagesOnce(&places)
		if err != nil {
			return nil, false, err
		}
		list, cut = append(list, once...), cut || more
	}
	slices.Sort(list)
	list = slices.DeleteFunc(slices.Compact(list), func(at attach.Address) bool { return at == 0 })
	if len(list) > maxHeapPages {
		list, cut = list[:maxHeapPages], true
	}
	return list, cut, nil
}

// Spans returns the address ranges of the heap's pages, in order. It calls the function rest after each part of the
// work, so that the caller can pause. The errors are the same as for AllPages.
func (g *Reader) Spans(ctx context.Context, rest func()) (list []attach.Span, err error) {
	pages, _, err := g.AllPages(ctx)
	if err != nil {
		return nil, err
	}
	var places heapPage
	if err := g.resolve(&places); err != nil {
		return nil, err
	}
	size := attach.Address(pageBytes(places.marks))
	const atOnce = 1024
	buf := make([]byte, atOnce*8)
	for chunk := range slices.Chunk(pages, atOnce) {
		ranges := make([]attach.Range, len(chunk))
		for i, page := range chunk {
			ranges[i] = attach.Range{Addr: page + attach.Address(places.pageStart), Buf: buf[i*8:][:8]}
		}
		if err := g.pages.read(g, ranges); err != nil {
			return nil, err
		}
		for i := range ranges {
			if start := attach.Address(view.U64(ranges[i].Buf)) &^ (size - 1); !ranges[i].Failed && start != 0 {
				list = append(list, attach.Span{Start: start, End: start + size})
			}
		}
		rest()
	}
	slices.SortFunc(list, func(a, b attach.Span) int { return cmp.Compare(a.Start, b.Start) })
	return slices.Compact(list), nil
}

// pagesOnce reads the list of pages. If Ruby puts the list elsewhere or changes its length during the reading, it reads
// the list again, up to maxListReads times. Ruby can change elements during the last reading.
func (g *Reader) pagesOnce(places *pageList) (list []attach.Address, cut bool, err error) {
	at, n, err := g.pageListNow(places)
	for range maxListReads {
		if err != nil {
			return nil, false, err
		}
		cut = n > maxHeapPages
		length := min(n, maxHeapPages)
		buf := make([]byte, length*8)
		if err := g.Mem.Read(at, buf); err != nil {
			return nil, cut, err
		}
		list = make([]attach.Address, length, length+1)
		for i := range list {
			list[i] = attach.Address(view.U64(buf[i*8:]))
		}
		before, was := at, n
		if at, n, err = g.pageListNow(places); at == before && n == was {
			break
		}
	}
	if page, ok := g.added(places, at+attach.Address(8*n)); ok {
		list = append(list, page)
	}
	return list, cut, err
}

// added returns the page behind the end of the list, if it belongs to a heap. When Ruby adds a page, it moves the last
// pages before it changes the length (gc.c, heap_page_allocate). Otherwise this place has no page, or a freed page.
func (g *Reader) added(places *pageList, at attach.Address) (page attach.Address, ok bool) {
	node := places.node()
	var buf [16]byte
	if node < 0 || g.Mem.Read(at, buf[:8]) != nil {
		return 0, false
	}
	page = attach.Address(view.U64(buf[:]))
	here := uint64(page) + uint64(node)
	if page == 0 || g.Mem.Read(attach.Address(here), buf[:]) != nil {
		return 0, false
	}
	next, previous := attach.Address(view.U64(buf[:])), attach.Address(view.U64(buf[8:]))
	linked := g.Mem.Read(next+8, buf[:8]) == nil && view.U64(buf[:]) == here
	return page, linked && g.Mem.Read(previous, buf[:8]) == nil && view.U64(buf[:]) == here
}

// pageListNow reads where the list of pages is now, and its length.
func (g *Reader) pageListNow(places *pageList) (at attach.Address, n uint64, err error) {
	read := func(addr attach.Address) (word uint64) {
		var w [8]byte
		if err == nil {
			err = g.Mem.Read(addr, w[:])
		}
		return view.U64(w[:])
	}
	at = attach.Address(read(g.Objspace + attach.Address(places.sorted)))
	if places.counted >= 0 {
		return at + 16, read(at), err
	}
	return at, read(g.Objspace + attach.Address(places.pages)), err
}
