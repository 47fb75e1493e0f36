package ruby

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
)

// Named limits of the search for suspended fibers.
const (
	// maxHeapPages bounds the list of the heap's pages, maxHeapBytes what is read of them: some half a second of a CPU.
	maxHeapPages = 1 << 18
	maxHeapBytes = 1 << 30
	// pagesAtOnce is how many pages are read with one call, maxHeapPage their size from 3.2 on (before, they were smaller),
	// maxFiberSlot the size of the largest slots that are read: a Fiber's object has 40 bytes.
	pagesAtOnce  = 32
	maxHeapPage  = 64 << 10
	maxFiberSlot = 80
	// maxSuspended bounds the fibers, maxDataTypes the types of objects that are distinguished on the way to them.
	maxSuspended = 20_000
	maxDataTypes = 4096
)

// fiberType is what cont.c calls the type of a Fiber's object, on all releases.
const fiberType = "fiber"

// fiberFinder finds the fibers of a process by their objects: nothing else leads to a suspended one, of which threads, schedulers
// and programs hold no common list.
type fiberFinder struct {
	r *Reader
	fiberPlaces
	heapPage
	// header is how much of a heap_page is read.
	header int
	types  map[attach.Address]bool
	// active are the fibers that run, and those that resumed them.
	active map[attach.Address]bool
	found  []attach.Address
	cut    bool
}

// fiberPlaces say where fibers are, and what state they are in.
type fiberPlaces struct {
	// sorted and pages are the list of the heap's pages and its length; where there is counted (3.4 and later), the list begins
	// with its length, and has its elements behind two words.
	sorted    int          `layout:"rb_objspace.heap_pages.sorted"`
	pages     int          `layout:"rb_objspace.heap_pages.allocated_pages"`
	counted   int          `layout:"rb_objspace.empty_pages_count,optional"`
	status    layout.Field `layout:"rb_fiber_struct.status"`
	created   uint64       `layout:"FIBER_CREATED"`
	suspended uint64       `layout:"FIBER_SUSPENDED"`
}

func newFiberFinder(r *Reader) (*fiberFinder, error) {
	if r.gc == nil {
		return nil, errors.New("this collector's heap can't be read")
	}
	f := &fiberFinder{r: r, types: make(map[attach.Address]bool), active: make(map[attach.Address]bool)}
	if err := errors.Join(r.vm.resolve(&f.fiberPlaces), r.vm.resolve(&f.heapPage)); err != nil {
		return nil, err
	}
	f.header = max(f.pageStart+8, f.totalSlots+2, f.slotSize+2)
	return f, nil
}

// SuspendedFibers looks through the heap for fibers that are suspended or were never resumed, which no thread leads to, and reads
// the stacks of the suspended ones. It costs a reading of all small objects: it is for a dump, and not for a tick. It belongs
// behind a Read. A fiber that nothing refers to any more is among them until the collector has freed it. Its errors are ctx's,
// those of reading the list of the heap's pages, and one that says that this release's table does not lead to fibers.
func (r *Reader) SuspendedFibers(ctx context.Context) (sampler.Fibers, error) {
	f, err := newFiberFinder(r)
	if err != nil {
		return sampler.Fibers{}, err
	}
	begin := r.now()
	if err := f.walk(ctx); err != nil {
		return sampler.Fibers{}, err
	}
	for _, t := range r.order {
		f.thread(t)
	}
	slices.SortFunc(f.found, func(a, b attach.Address) int { return cmp.Compare(a, b) })
	f.found = slices.Compact(f.found)
	if len(f.found) > maxSuspended {
		f.found, f.cut = f.found[:maxSuspended], true
	}
	out := sampler.Fibers{}
	for _, addr := range f.found {
		if f.active[addr] {
			continue
		}
		if fiber, ok := f.read(addr); ok {
			out.List = append(out.List, fiber)
		}
	}
	out.Cut, out.ReadNS = f.cut, r.now()-begin
	return out, nil
}

// thread notes which fibers of a thread are active, and its first one, which has no object until somebody asks for it.
func (f *fiberFinder) thread(t *thread) {
	r := f.r
	if t.stack.ec == 0 {
		return
	}
	fiber := t.stack.ec - attach.Address(r.o.fiberSavedEC)
	for hops := 0; hops < maxFibers && fiber != 0; hops++ {
		f.active[fiber] = true
		var w [8]byte
		if r.mem.Read(fiber+attach.Address(r.o.fiberPrev), w[:]) != nil {
			break
		}
		fiber = attach.Address(le64(w[:]))
	}
	if r.o.thRootFiber >= 0 {
		if root := attach.Address(le64(t.buf[r.o.thRootFiber:])); root != 0 {
			f.found = append(f.found, root)
		}
	}
}

// walk looks through the pages of the heap.
func (f *fiberFinder) walk(ctx context.Context) error {
	list, err := f.pageList()
	if err != nil {
		return err
	}
	headers, slots := make([]byte, pagesAtOnce*f.header), make([]byte, pagesAtOnce*maxHeapPage)
	ranges, sizes := make([]attach.Range, 0, pagesAtOnce), make([]int, 0, pagesAtOnce)
	left := maxHeapBytes
	for chunk := range slices.Chunk(list, pagesAtOnce) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		ranges, sizes = ranges[:0], sizes[:0]
		for i, page := range chunk {
			ranges = append(ranges, attach.Range{Addr: attach.Address(page), Buf: headers[i*f.header:][:f.header]})
		}
		if _, err := f.r.mem.ReadBatch(ranges); err != nil {
			return err
		}
		pages := ranges[:0]
		for _, header := range ranges {
			size, total := slotSize, 0
			if !header.Failed { // else the page was given back
				total = int(le16(header.Buf[f.totalSlots:]))
			}
			if f.slotSize >= 0 {
				size = int(le16(header.Buf[f.slotSize:]))
			}
			if total == 0 || size < slotSize || size > maxFiberSlot || total*size > maxHeapPage {
				continue
			}
			buf := slots[len(pages)*maxHeapPage:][:total*size]
			if left -= len(buf); left < 0 {
				f.cut = true
				return nil
			}
			pages, sizes = append(pages, attach.Range{Addr: attach.Address(le64(header.Buf[f.pageStart:])), Buf: buf}), append(sizes, size)
		}
		if _, err := f.r.mem.ReadBatch(pages); err != nil {
			return err
		}
		for i := range pages {
			if !pages[i].Failed {
				f.page(uint64(pages[i].Addr), pages[i].Buf, sizes[i])
			}
		}
	}
	return nil
}

// pageList reads the addresses of the heap's pages.
func (f *fiberFinder) pageList() ([]uint64, error) {
	read := func(addr attach.Address) (uint64, error) {
		var w [8]byte
		err := f.r.mem.Read(addr, w[:])
		return le64(w[:]), err
	}
	at, err := read(f.r.gc.objspace + attach.Address(f.sorted))
	if err != nil {
		return nil, err
	}
	length := f.r.gc.objspace + attach.Address(f.pages)
	if f.counted >= 0 {
		length = attach.Address(at)
		at += 16
	}
	n, err := read(length)
	if err != nil {
		return nil, err
	}
	if n > maxHeapPages {
		n, f.cut = maxHeapPages, true
	}
	buf := make([]byte, n*8)
	if err := f.r.mem.Read(attach.Address(at), buf); err != nil {
		return nil, err
	}
	list := make([]uint64, n)
	for i := range list {
		list[i] = le64(buf[i*8:])
	}
	return list, nil
}

// page notes the fibers among the objects of a page.
func (f *fiberFinder) page(addr uint64, slots []byte, size int) {
	objects := &f.r.o.objects
	for at := 0; at+size <= len(slots); at += size {
		slot := slots[at : at+size]
		if typ, ok := objects.DataType(slot); !ok || !f.isFiber(typ, addr+uint64(at)) {
			continue
		}
		fiber := objects.Data(attach.Address(addr)+attach.Address(at), slot)
		if fiber == 0 {
			continue // not initialized
		}
		if len(f.found) >= maxSuspended {
			f.cut = true
			return
		}
		f.found = append(f.found, fiber)
	}
}

// isFiber reports whether a type of data is that of fibers; value is an object of it.
func (f *fiberFinder) isFiber(typ attach.Address, value uint64) bool {
	is, known := f.types[typ]
	if !known {
		is = f.r.dec.Objects.DataTypeName(value) == fiberType
		if len(f.types) < maxDataTypes {
			f.types[typ] = is
		}
	}
	return is
}

// read reads a fiber's stack; ok is false when it is not suspended, or no fiber any more.
func (f *fiberFinder) read(addr attach.Address) (out sampler.Fiber, ok bool) {
	r := f.r
	saved := attach.Address(r.o.fiberSavedEC)
	own := link{addr + saved + attach.Address(r.o.ecFiber), addr}
	for range maxStackTries {
		buf := make([]byte, max(f.status.Offset+8, r.o.fiberSavedEC+r.o.ecThread+8, r.o.fiberSavedEC+r.o.ecFiber+8))
		if r.mem.Read(addr, buf) != nil {
			return out, false
		}
		context := buf[saved:]
		t := r.threads[attach.Address(le64(context[r.o.ecThread:]))]
		status := f.status.In(buf)
		if t == nil || status != f.suspended && status != f.created || attach.Address(le64(context[r.o.ecFiber:])) != addr {
			return out, false
		}
		out = sampler.Fiber{Thread: t.id, Created: status == f.created}
		if out.Created {
			return out, true
		}
		if out.Stack, ok = r.fiberStack(t, addr+saved, []link{own}); ok {
			return out, true
		}
	}
	return out, out.Thread != 0
}
