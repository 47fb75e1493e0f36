package gc

import (
	"context"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// Named limits of a walk over the heap.
const (
	// maxHeapPages bounds the list of the heap's pages, maxHeapBytes what is read of them: some half a second of a CPU.
	maxHeapPages = 1 << 18
	maxHeapBytes = 1 << 30
	// pagesAtOnce is how many pages are read with one call, maxHeapPage their size from 3.2 on (before, they were smaller).
	pagesAtOnce = 32
	maxHeapPage = 64 << 10
)

// pageList is the place of the list of the heap's pages, and of its length; where there is counted (3.4 and later), the list begins
// with its length, and has its elements behind two words.
type pageList struct {
	sorted  int `layout:"rb_objspace.heap_pages.sorted"`
	pages   int `layout:"rb_objspace.heap_pages.allocated_pages"`
	counted int `layout:"rb_objspace.empty_pages_count,optional"`
}

// EachPage calls f with the content of each page of the heap whose slots have at most maxSlot bytes, until f returns false. cut says
// that the heap has more than is looked at. The error is ctx's, that of reading the list of the pages, or says that the release's
// table does not lead to them.
func (g *Reader) EachPage(ctx context.Context, maxSlot int, f func(page attach.Range, slotSize int) (more bool),
) (cut bool, err error) {
	var p heapPage
	list, cut, err := g.pageList(&p)
	if err != nil {
		return cut, err
	}
	size := max(p.pageStart+8, p.totalSlots+2, p.slotSize+2)
	headers, slots := make([]byte, pagesAtOnce*size), make([]byte, pagesAtOnce*maxHeapPage)
	ranges, sizes := make([]attach.Range, 0, pagesAtOnce), make([]int, 0, pagesAtOnce)
	left := maxHeapBytes
	for chunk := range slices.Chunk(list, pagesAtOnce) {
		if ctx.Err() != nil {
			return cut, ctx.Err()
		}
		ranges, sizes = ranges[:0], sizes[:0]
		for i, page := range chunk {
			ranges = append(ranges, attach.Range{Addr: page, Buf: headers[i*size:][:size]})
		}
		if _, err := g.Mem.ReadBatch(ranges); err != nil {
			return cut, err
		}
		pages := ranges[:0]
		for _, header := range ranges {
			start, size, total := p.slots(header.Buf)
			if header.Failed || total == 0 || size < slotSize || size > maxSlot || total*size > maxHeapPage { // or it was given back
				continue
			}
			buf := slots[len(pages)*maxHeapPage:][:total*size]
			if left -= len(buf); left < 0 {
				return true, nil
			}
			pages, sizes = append(pages, attach.Range{Addr: start, Buf: buf}), append(sizes, size)
		}
		if _, err := g.Mem.ReadBatch(pages); err != nil {
			return cut, err
		}
		for i := range pages {
			if !pages[i].Failed && !f(pages[i], sizes[i]) {
				return cut, nil
			}
		}
	}
	return cut, nil
}

// pageList reads the addresses of the heap's pages.
func (g *Reader) pageList(p *heapPage) (list []attach.Address, cut bool, err error) {
	var places pageList
	if err := g.resolve(&places, p); err != nil {
		return nil, false, err
	}
	read := func(addr attach.Address) (uint64, error) {
		var w [8]byte
		err := g.Mem.Read(addr, w[:])
		return view.U64(w[:]), err
	}
	at, err := read(g.Objspace + attach.Address(places.sorted))
	if err != nil {
		return nil, false, err
	}
	length := g.Objspace + attach.Address(places.pages)
	if places.counted >= 0 {
		length = attach.Address(at)
		at += 16
	}
	n, err := read(length)
	if err != nil {
		return nil, false, err
	}
	if n > maxHeapPages {
		n, cut = maxHeapPages, true
	}
	buf := make([]byte, n*8)
	if err := g.Mem.Read(attach.Address(at), buf); err != nil {
		return nil, cut, err
	}
	list = make([]attach.Address, n)
	for i := range list {
		list[i] = attach.Address(view.U64(buf[i*8:]))
	}
	return list, cut, nil
}
