package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
)

// How often the details of the collector are read, in ns: as a rule, and when the number of cycles has changed.
const (
	gcDetailNS      = 100_000_000
	gcDetailAfterNS = 10_000_000
)

// slotSize is the size of all slots up to 3.0, and minSlotSize of the smallest after 4.0, in bytes. The smallest heap has
// one of the two.
const (
	slotSize    = 40
	minSlotSize = 32
)

// maxObjspace bounds the size of rb_objspace: 1 to 4 KB on all releases.
const maxObjspace = 64 << 10

// figure is a word of rb_objspace and the figure it becomes.
type figure struct {
	off, width int
	to         func(*sampler.GCDetail) *int64
}

// heapFigure is a word of one heap's struct.
type heapFigure struct {
	off, width int
	to         func(*sampler.GCHeap) *int64
}

// gcDetail reads the figures of GC.stat from a copy of the whole of rb_objspace: each is a word of it or worked out
// from some, none needs a walk (docs/internals/gc.md#the-object-space).
type gcDetail struct {
	buf     []byte
	figures []figure
	heaps   []heapFigure
	// heapsAt, heapSize and heapCount are the places of the heaps.
	heapsAt, heapSize, heapCount                         int
	disabled, stress, incremental, compacting, measuring bitField
	nextMajor                                            bitField
	sorted                                               int // 3.4+: allocated pages are the first word there
	mallocCount, freeCount, oldMallocCount, oldFreeCount int // after 4.0: malloc less free, since the last cycle
	finalPerHeap, freedPerHeap, madePerHeap              bool

	lastNS    int64
	lastCount uint64
	now       sampler.GCDetail
}

func (d *gcDetail) init(t *layout.Table) {
	size := t.Size("rb_objspace")
	if size <= 0 || size > maxObjspace {
		return
	}
	off := func(name string) int { return t.Offset("rb_objspace." + name) }
	d.buf = make([]byte, size)
	flag := func(name string) bitField {
		f, ok := t.Field("rb_objspace." + name)
		if !ok {
			return bitField{off: -1}
		}
		return bitField{off: f.Offset, width: f.Size, shift: uint(f.BitOffset), size: uint(f.BitSize)}
	}
	d.disabled, d.stress, d.measuring = flag("flags.dont_gc"), flag("flags.gc_stressful"), flag("flags.measure_gc")
	d.incremental, d.compacting = flag("flags.during_incremental_marking"), flag("flags.during_compacting")
	d.nextMajor = flag("rgengc.need_major_gc")
	d.initFigures(t)
	d.sorted = -1
	if t.Offset("rb_objspace.empty_pages_count") >= 0 {
		d.sorted = off("heap_pages.sorted") // 3.4 made it a dynamic array that begins with its size
	}
	d.mallocCount, d.freeCount = off("malloc_counters.counters.malloc"), off("malloc_counters.counters.free")
	d.oldMallocCount, d.oldFreeCount = off("malloc_counters.oldcounters.malloc"), off("malloc_counters.oldcounters.free")
	d.initHeaps(t)
}

// initFigures notes the words that stand in rb_objspace itself, by the names of each era: the first that a release has.
func (d *gcDetail) initFigures(t *layout.Table) {
	add := func(to func(*sampler.GCDetail) *int64, names ...string) {
		for _, name := range names {
			if f, ok := t.Field("rb_objspace." + name); ok {
				d.figures = append(d.figures, figure{f.Offset, f.Size, to})
				return
			}
		}
	}
	add(func(x *sampler.GCDetail) *int64 { return &x.Compactions }, "profile.compact_count")
	add(func(x *sampler.GCDetail) *int64 { return &x.Moved }, "rcompactor.total_moved")
	add(func(x *sampler.GCDetail) *int64 { return &x.MarkingNS }, "profile.marking_time_ns")
	add(func(x *sampler.GCDetail) *int64 { return &x.SweepingNS }, "profile.sweeping_time_ns")
	add(func(x *sampler.GCDetail) *int64 { return &x.Freed }, "profile.total_freed_objects")
	add(func(x *sampler.GCDetail) *int64 { return &x.Marked }, "marked_slots")
	add(func(x *sampler.GCDetail) *int64 { return &x.FinalSlots }, "heap_pages.final_slots")
	add(func(x *sampler.GCDetail) *int64 { return &x.EmptyPages }, "empty_pages_count")
	if t.Offset("rb_objspace.empty_pages_count") < 0 {
		add(func(x *sampler.GCDetail) *int64 { return &x.AllocatedPages }, "heap_pages.allocated_pages")
		add(func(x *sampler.GCDetail) *int64 { return &x.PagesMade }, "profile.total_allocated_pages")
		add(func(x *sampler.GCDetail) *int64 { return &x.PagesFreed }, "profile.total_freed_pages")
	} else {
		// 3.4: heap_pages.allocated_pages became the count of pages ever made (gc/default/default.c).
		add(func(x *sampler.GCDetail) *int64 { return &x.PagesMade }, "heap_pages.allocated_pages")
		add(func(x *sampler.GCDetail) *int64 { return &x.PagesFreed }, "heap_pages.freed_pages")
	}
	add(func(x *sampler.GCDetail) *int64 { return &x.AllocatablePages }, "heap_pages.allocatable_pages")
	add(func(x *sampler.GCDetail) *int64 { return &x.AllocatableSlots }, "heap_pages.allocatable_slots")
	add(func(x *sampler.GCDetail) *int64 { return &x.AllocatableBytes }, "heap_pages.allocatable_bytes")
	add(func(x *sampler.GCDetail) *int64 { return &x.MallocIncrease }, "malloc_params.increase", "malloc_counters.increase")
	add(func(x *sampler.GCDetail) *int64 { return &x.MallocLimit }, "malloc_params.limit")
	add(func(x *sampler.GCDetail) *int64 { return &x.OldMallocIncrease }, "rgengc.oldmalloc_increase", "malloc_counters.oldmalloc_increase")
	add(func(x *sampler.GCDetail) *int64 { return &x.OldMallocLimit }, "rgengc.oldmalloc_increase_limit")
	add(func(x *sampler.GCDetail) *int64 { return &x.OldObjects }, "rgengc.old_objects")
	add(func(x *sampler.GCDetail) *int64 { return &x.OldObjectsLimit }, "rgengc.old_objects_limit")
	add(func(x *sampler.GCDetail) *int64 { return &x.Unprotected }, "rgengc.uncollectible_wb_unprotected_objects")
	add(func(x *sampler.GCDetail) *int64 { return &x.UnprotectedLimit }, "rgengc.uncollectible_wb_unprotected_objects_limit")
	add(func(x *sampler.GCDetail) *int64 { return &x.WeakReferences }, "profile.weak_references_count")
	add(func(x *sampler.GCDetail) *int64 { return &x.RetainedWeakReferences }, "profile.retained_weak_references_count")
}

// initHeaps notes where the heaps are: eden_heap and tomb_heap up to 3.0, size_pools with the two inside up to 3.3, heaps
// from 3.4 on.
func (d *gcDetail) initHeaps(t *layout.Table) {
	add := func(owner string, to func(*sampler.GCHeap) *int64, name string) bool {
		f, ok := t.Field(owner + "." + name)
		if ok {
			d.heaps = append(d.heaps, heapFigure{f.Offset, f.Size, to})
		}
		return ok
	}
	if _, ok := t.Field("rb_objspace.eden_heap"); ok {
		d.heapCount = 1
		add("rb_objspace", func(h *sampler.GCHeap) *int64 { return &h.Pages }, "eden_heap.total_pages")
		add("rb_objspace", func(h *sampler.GCHeap) *int64 { return &h.Slots }, "eden_heap.total_slots")
		add("rb_objspace", func(h *sampler.GCHeap) *int64 { return &h.TombPages }, "tomb_heap.total_pages")
		add("rb_objspace", func(h *sampler.GCHeap) *int64 { return &h.TombSlots }, "tomb_heap.total_slots")
		return
	}
	owner, eden, tomb := "rb_heap_struct", "", ""
	f, ok := t.Field("rb_objspace.heaps")
	if !ok {
		owner, eden, tomb = "rb_size_pool_struct", "eden_heap.", "tomb_heap."
		if f, ok = t.Field("rb_objspace.size_pools"); !ok {
			return
		}
	}
	d.heapsAt, d.heapSize = f.Offset, t.Size(owner)
	if d.heapSize <= 0 {
		return
	}
	d.heapCount = min(f.Size/d.heapSize, sampler.MaxGCHeaps)
	add(owner, func(h *sampler.GCHeap) *int64 { return &h.SlotSize }, "slot_size")
	add(owner, func(h *sampler.GCHeap) *int64 { return &h.Pages }, eden+"total_pages")
	add(owner, func(h *sampler.GCHeap) *int64 { return &h.Slots }, eden+"total_slots")
	if tomb != "" {
		add(owner, func(h *sampler.GCHeap) *int64 { return &h.TombPages }, tomb+"total_pages")
		add(owner, func(h *sampler.GCHeap) *int64 { return &h.TombSlots }, tomb+"total_slots")
	}
	d.freedPerHeap = add(owner, func(h *sampler.GCHeap) *int64 { return &h.Freed }, "total_freed_objects")
	d.finalPerHeap = add(owner, func(h *sampler.GCHeap) *int64 { return &h.Final }, "final_slots_count")
	add(owner, func(h *sampler.GCHeap) *int64 { return &h.AllocatablePages }, "allocatable_pages")
	d.madePerHeap = add(owner, func(h *sampler.GCHeap) *int64 { return &h.PagesMade }, "total_allocated_pages")
	add(owner, func(h *sampler.GCHeap) *int64 { return &h.PagesFreed }, "total_freed_pages")
	add(owner, func(h *sampler.GCHeap) *int64 { return &h.ForcedMajor }, "force_major_gc_count")
	add(owner, func(h *sampler.GCHeap) *int64 { return &h.ForcedFinish }, "force_incremental_marking_finish_count")
}

// readGCDetail gives the sample the details, after reading them again when it is time.
func (r *Reader) readGCDetail(s *sampler.Sample) {
	s.GCDetail = sampler.GCDetail{}
	if r.gc == nil || !s.GC.Valid || r.gc.detail.buf == nil {
		return
	}
	d := &r.gc.detail
	age := s.TimeNS - d.lastNS
	if d.lastNS == 0 || age >= gcDetailNS || age >= gcDetailAfterNS && s.GC.Count != d.lastCount {
		d.lastNS, d.lastCount = s.TimeNS, s.GC.Count
		r.fetchGCDetail()
		if r.gc == nil {
			s.GC = sampler.GC{}
			return
		}
	}
	s.GCDetail = d.now
}

// fetchGCDetail reads the whole of rb_objspace. A failure leaves the figures of the last time, with their age.
func (r *Reader) fetchGCDetail() {
	g := r.gc
	d := &g.detail
	r.batch = r.batch[:0]
	g.planBefore(r)
	whole := len(r.batch)
	r.add(g.objspace, d.buf)
	g.planAfter(r)
	calls, err := r.mem.ReadBatch(r.batch)
	r.reads.Calls += uint64(calls)
	if err != nil || r.batch[whole].Failed || !g.take(r.batch) {
		r.reads.Failed++
		return
	}
	var pages [8]byte
	pagesKnown := false
	if d.sorted >= 0 {
		if at := attach.Address(le64(d.buf[d.sorted:])); at != 0 && r.mem.Read(at, pages[:]) == nil {
			pagesKnown = true
		}
		r.reads.Calls++
	}
	d.decode(&d.now, &g.alloc)
	if n := d.now.Heaps[0].SlotSize; d.heapCount > 0 && n != slotSize && n != minSlotSize {
		r.gc = nil // another struct than the table says
		return
	}
	if pagesKnown {
		d.now.AllocatedPages = int64(le64(pages[:]))
	}
	d.now.AtNS, d.now.Uncounted, d.now.MovesCounted = r.now(), g.alloc.uncounted, d.sorted >= 0
}

// decode turns the copy into figures; the objects allocated come from alloc, caches included.
func (d *gcDetail) decode(out *sampler.GCDetail, alloc *allocCounter) {
	*out = sampler.GCDetail{}
	for _, f := range out.Fields() {
		*f = sampler.GCUnknown
	}
	flag := func(b bitField) bool { return b.known() && b.get(d.buf) != 0 }
	out.Disabled, out.Stress, out.Measuring = flag(d.disabled), flag(d.stress), flag(d.measuring)
	out.Incremental, out.Compacting = flag(d.incremental), flag(d.compacting)
	if d.nextMajor.known() {
		out.NextMajor = uint32(d.nextMajor.get(d.buf))
	}
	for _, f := range d.figures {
		*f.to(out) = int64(le(d.buf[f.off:], f.width))
	}
	if d.mallocCount >= 0 {
		out.MallocIncrease = d.sinceCycle(d.mallocCount, d.freeCount)
		out.OldMallocIncrease = d.sinceCycle(d.oldMallocCount, d.oldFreeCount)
	}
	out.HeapCount = int32(d.heapCount)
	for i := range d.heapCount {
		h := &out.Heaps[i]
		for _, f := range h.Fields() {
			*f = sampler.GCUnknown
		}
		h.SlotSize = slotSize
		if alloc.n > 1 {
			h.Allocated = int64(alloc.totals[i])
		}
		for _, f := range d.heaps {
			*f.to(h) = int64(le(d.buf[d.heapsAt+i*d.heapSize+f.off:], f.width))
		}
	}
	out.Allocated = int64(alloc.total())
	d.sum(out)
}

// sinceCycle is what was malloc'ed less what was freed since the last cycle: four counters in a row, malloc, free, and the
// two as they were at the last cycle.
func (d *gcDetail) sinceCycle(malloc, free int) int64 {
	w := func(off int) int64 { return int64(le64(d.buf[off:])) }
	return max(0, w(malloc)-w(malloc+16)-(w(free)-w(free+16)))
}

// sum makes the figures that are sums over heaps or differences. What several ractors lose or ZJIT does not count is
// clamped at 0, where Ruby's own figure would wrap around.
func (d *gcDetail) sum(out *sampler.GCDetail) {
	if d.heapCount == 0 {
		return
	}
	total := func(of func(*sampler.GCHeap) int64) int64 {
		var sum int64
		for i := range d.heapCount {
			if v := of(&out.Heaps[i]); v != sampler.GCUnknown {
				sum += v
			}
		}
		return sum
	}
	out.EdenPages = total(func(h *sampler.GCHeap) int64 { return h.Pages })
	out.AvailableSlots = total(func(h *sampler.GCHeap) int64 { return h.Slots }) + total(func(h *sampler.GCHeap) int64 { return h.TombSlots })
	if out.Heaps[0].TombPages != sampler.GCUnknown {
		out.TombPages = total(func(h *sampler.GCHeap) int64 { return h.TombPages })
	}
	if d.freedPerHeap {
		out.Freed = total(func(h *sampler.GCHeap) int64 { return h.Freed })
	}
	if d.finalPerHeap {
		out.FinalSlots = total(func(h *sampler.GCHeap) int64 { return h.Final })
	}
	if out.Heaps[0].AllocatablePages != sampler.GCUnknown {
		out.AllocatablePages = total(func(h *sampler.GCHeap) int64 { return h.AllocatablePages })
	}
	if out.PagesMade == sampler.GCUnknown && d.madePerHeap {
		out.PagesMade = total(func(h *sampler.GCHeap) int64 { return h.PagesMade })
		out.PagesFreed = total(func(h *sampler.GCHeap) int64 { return h.PagesFreed })
	}
	out.Live = max(0, out.Allocated-out.Freed-max(0, out.FinalSlots))
	out.FreeSlots = max(0, out.AvailableSlots-out.Live-max(0, out.FinalSlots))
}
