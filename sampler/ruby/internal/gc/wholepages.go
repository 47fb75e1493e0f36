package gc

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// PagesAPiece is how many pages Whole reads at once, which are 1 to 4 MB. With fewer pages, more system calls are
// needed. With more pages, less data is still in the CPU's caches when ddtop comes to the next piece.
const PagesAPiece = 64

// Page is a page of the heap with its header.
type Page struct {
	// Start is the address of the first slot. Slots has the content of all slots. Each slot has SlotSize bytes.
	Start    attach.Address
	Slots    []byte
	SlotSize int
	// unswept is true if a collection has marked the page's live objects, but has not freed its dead objects yet.
	unswept bool
	marks   []byte
	ages    []byte // two bits for each slot. It is empty up to 3.2
	bytes   uint64 // the size of the page, a power of two
}

// promoted are the two bits in an object's flags that hold its age, up to 3.2 (FL_PROMOTED0 and FL_PROMOTED1, gc.c).
const promoted = 0x60

// Survived reports whether the object in the slot at an offset has survived a collection, according to its age. The
// marks do not show this, because sweeping a page keeps only the marks of old objects (gc_setup_mark_bits, gc.c). The
// age is in the object's flags up to 3.2, and in the page's header from 3.3 on (heap_page.age_bits). An object without
// a write barrier does not age.
func (p *Page) Survived(offset int, flags uint64) bool {
	if len(p.ages) == 0 {
		return flags&promoted != 0
	}
	n := (uint64(p.Start) + uint64(offset)) & (p.bytes - 1) / slotSize
	return int(n/4) < len(p.ages) && p.ages[n/4]>>(n%4*2)&3 != 0
}

// Dead reports whether the object in the slot at an offset is garbage that waits to be swept.
func (p *Page) Dead(offset int) bool {
	if !p.unswept {
		return false
	}
	bit := (uint64(p.Start) + uint64(offset)) & (p.bytes - 1) / slotSize
	return int(bit/8) < len(p.marks) && p.marks[bit/8]>>(bit%8)&1 == 0
}

// wholeReads holds the offsets of fields, and the buffers, that Whole uses.
type wholeReads struct {
	heapPage
	// first is the size of the part of a header that describes the slots, in bytes. whole is the size of the header
	// with marks and ages.
	first, whole    int
	flags           int
	ages            layout.Field
	bytes           uint64
	headers, slots  []byte
	ranges, content []attach.Range
	of              []int
}

// beforeSweep is a bit of a page's flags. It is set while the page waits to be swept (heap_page.flags.before_sweep,
// gc.c).
const beforeSweep = 1

// againBytes is the number of bytes that are read again after a page: the byte of its flags, and the word with the
// collector's mode.
const againBytes = 1 + 8

func (g *Reader) newWhole() (*wholeReads, error) {
	r := new(wholeReads)
	if err := g.resolve(&r.heapPage); err != nil {
		return nil, err
	}
	// The header has four counts of two bytes, of which total_slots is the first. The flags follow at the next multiple
	// of four.
	r.flags = (r.totalSlots + 8 + 3) &^ 3
	if r.node() < 0 {
		return nil, ErrNoHeap
	}
	r.first = max(r.pageStart+8, r.totalSlots+2, r.slotSize+2, r.node()+8)
	if g.Release.AtLeast(3, 3) { // the marks are followed by four other bit maps of the same size
		r.ages.Offset, r.ages.Size = r.marks.Offset+5*r.marks.Size, 2*r.marks.Size
	}
	r.whole = max(r.first, r.flags+4, r.marks.Offset+r.marks.Size, r.ages.Offset+r.ages.Size)
	r.bytes = pageBytes(r.marks)
	r.headers = make([]byte, PagesAPiece*(r.first+r.whole+againBytes)+againBytes)
	r.slots = make([]byte, PagesAPiece*maxHeapPage)
	return r, nil
}

// Whole calls f with each page in list, at most PagesAPiece pages. Each page is read in one call: the slots, the header
// with the marks, the header's flags once more, and the collector's mode. The marks show garbage only if the collector
// sweeps, and if the page is unswept before and after its marks are read. During marking, live objects may have no mark
// yet (gc.c, is_garbage_object).
//
// skipped counts the pages that could not be read, that Ruby still prepares, or whose slots changed during the reading.
// It also counts the headers of freed pages. The memory of such a header can still have the address of a page that now
// belongs to another header. So each page must begin with the address of its header (heap_page_header.page, gc.c, 2.7
// to 4.0). The content is valid only during the call of f. The error is from reading the target, or it names a field
// that the layout table lacks.
func (g *Reader) Whole(list []attach.Address, f func(*Page)) (skipped int, err error) {
	if g.whole == nil {
		if g.whole, err = g.newWhole(); err != nil {
			return 0, err
		}
	}
	r := g.whole
	list = list[:min(len(list), PagesAPiece)]
	r.ranges = r.ranges[:0]
	for i, page := range list {
		r.ranges = append(r.ranges, attach.Range{Addr: page, Buf: r.headers[i*r.first:][:r.first]})
	}
	if err := g.pages.read(g, r.ranges); err != nil {
		return 0, err
	}
	wholes, again := r.headers[len(list)*r.first:], r.headers[len(list)*(r.first+r.whole):]
	mode := attach.Range{Addr: g.Objspace + attach.Address(g.mode.Offset), Buf: again[len(list)*againBytes:][:g.mode.Size]}
	r.content, r.of = append(r.content[:0], mode), r.of[:0]
	for i, header := range r.ranges {
		start, size, total := r.heapPage.slots(header.Buf)
		lead := r.lead(start)
		switch {
		case header.Failed || size < minSlotSize || size > maxSlotSize || lead+total*size > maxHeapPage:
			skipped++
		case total == 0: // empty pages are on the list from 3.4 on
		case lead < 8 || r.unfinished(header.Buf):
			skipped++
		default:
			n := len(r.of)
			r.of = append(r.of, i)
			body := r.slots[n*maxHeapPage:][:lead+total*size]
			r.content = append(r.content, attach.Range{Addr: start - attach.Address(lead), Buf: body},
				attach.Range{Addr: list[i], Buf: wholes[n*r.whole:][:r.whole]},
				attach.Range{Addr: list[i] + attach.Address(r.flags), Buf: again[n*againBytes:][:1]},
				attach.Range{Addr: mode.Addr, Buf: again[n*againBytes+1:][:len(mode.Buf)]})
		}
	}
	if err := g.pages.read(g, r.content); err != nil {
		return skipped, err
	}
	sweeps := func(r attach.Range) bool {
		f := g.mode
		f.Offset = 0
		return !r.Failed && sampler.GCMode(f.In(r.Buf)) == sampler.GCSweeping
	}
	before := sweeps(r.content[0])
	for n, i := range r.of {
		body, header, flags, behind := r.content[4*n+1], r.content[4*n+2], r.content[4*n+3], r.content[4*n+4]
		start, size, total := r.heapPage.slots(r.ranges[i].Buf)
		if body.Failed || header.Failed || flags.Failed || view.U64(body.Buf) != uint64(list[i]) {
			skipped++
			continue
		}
		start2, size2, total2 := r.heapPage.slots(header.Buf)
		if start != start2 || size != size2 || total != total2 || r.unfinished(header.Buf) {
			skipped++
			continue
		}
		unswept := header.Buf[r.flags]&flags.Buf[0]&beforeSweep != 0 && before && sweeps(behind)
		f(&Page{Start: start, Slots: body.Buf[r.lead(start):], SlotSize: size, unswept: unswept,
			marks: header.Buf[r.marks.Offset:][:r.marks.Size], ages: header.Buf[r.ages.Offset:][:r.ages.Size], bytes: r.bytes})
	}
	return skipped, nil
}

// unfinished reports whether Ruby still prepares the page. It adds a page to the pages of a heap only after it has
// cleared all slots (gc.c, heap_page_allocate and heap_add_page). Until then the slots can contain anything.
func (r *wholeReads) unfinished(header []byte) bool { return view.U64(header[r.node():]) == 0 }

// lead returns the distance of a page's first slot from the beginning of the page, in bytes.
func (r *wholeReads) lead(start attach.Address) int { return int(uint64(start) & (r.bytes - 1)) }

// Figures reads the collector's state and figures now. ok is false if they cannot be read.
func (g *Reader) Figures() (gc sampler.GC, detail sampler.GCDetail, ok bool) {
	d := &g.detail
	before := d.now
	// a new AtNS shows that fetchDetail has set it. In a core file, fetchDetail always sets the same time
	d.now.AtNS = 0
	if d.buf == nil || !g.fetchDetail() || d.now.AtNS == 0 {
		d.now = before
		return gc, detail, false
	}
	g.fill(&gc)
	return gc, d.now, true
}
