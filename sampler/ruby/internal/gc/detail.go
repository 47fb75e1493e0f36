package gc

import (
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/attach/layout"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// gcDetailNS is the interval between two readings of the collector's details, in ns. gcDetailAfterNS replaces it after
// a collection has begun, and is shorter.
const (
	gcDetailNS      = 100_000_000
	gcDetailAfterNS = 10_000_000
)

// slotSize is the size of all slots up to 3.0, in bytes. minSlotSize is the size of the smallest slots after 4.0. On
// every release, the slots of the smallest heap have one of these two sizes.
const (
	slotSize    = 40
	minSlotSize = 32
)

// maxObjspace limits the size of rb_objspace, in bytes. It has 1 to 4 KB on all releases.
const maxObjspace = 64 << 10

// figure is one figure of GC.stat: the place of its word in rb_objspace, or in a heap's struct. The function to returns
// the field that gets the word's value.
type figure[T any] struct {
	layout.Field
	to func(*T) *int64
}

// gcDetail computes the figures of GC.stat from a copy of rb_objspace. Each figure is a word in this copy, or is
// computed from several words. No figure needs a walk over the heap (docs/internals/gc.md#the-object-space).
type gcDetail struct {
	buf     []byte
	figures []figure[sampler.GCDetail]
	heaps   []figure[sampler.GCHeap]
	// heapsAt is the offset of the first of heapCount heaps. heapSize is the size of one.
	heapsAt, heapSize, heapCount int
	gcDetailPlaces
	finalPerHeap, freedPerHeap, madePerHeap bool

	lastNS    int64
	lastCount uint64
	now       sampler.GCDetail
}

// gcDetailPlaces are the places of fields in rb_objspace.
type gcDetailPlaces struct {
	size        int          `layout:"sizeof rb_objspace"`
	disabled    layout.Field `layout:"rb_objspace.flags.dont_gc,optional"`
	stress      layout.Field `layout:"rb_objspace.flags.gc_stressful,optional"`
	incremental layout.Field `layout:"rb_objspace.flags.during_incremental_marking,optional"`
	compacting  layout.Field `layout:"rb_objspace.flags.during_compacting,optional"`
	measuring   layout.Field `layout:"rb_objspace.flags.measure_gc,optional"`
	nextMajor   layout.Field `layout:"rb_objspace.rgengc.need_major_gc,optional"`
	// emptyPages is the offset of the number of empty pages. A release with this field (3.4 and later) has a dynamic
	// array at sorted. The array's first word is the number of allocated pages.
	emptyPages int `layout:"rb_objspace.empty_pages_count,optional"`
	sorted     int `layout:"rb_objspace.heap_pages.sorted,optional"`
	// mallocCount and the three fields after it are offsets of counters of bytes, in releases after 4.0 (see
	// sinceCycle).
	mallocCount    int `layout:"rb_objspace.malloc_counters.counters.malloc,optional"`
	freeCount      int `layout:"rb_objspace.malloc_counters.counters.free,optional"`
	oldMallocCount int `layout:"rb_objspace.malloc_counters.oldcounters.malloc,optional"`
	oldFreeCount   int `layout:"rb_objspace.malloc_counters.oldcounters.free,optional"`
}

// figurePlace is the place of a figure in the form of a layout tag. Some releases lack the figure.
type figurePlace[T any] struct {
	layout string
	to     func(*T) *int64
}

// detailFigures are the figures that are words in rb_objspace itself. counted is true if heap_pages.allocated_pages
// counts all pages ever made, as it does from 3.4 on (gc/default/default.c).
func detailFigures(counted bool) []figurePlace[sampler.GCDetail] {
	type detail = sampler.GCDetail
	pages := []figurePlace[detail]{
		{"rb_objspace.heap_pages.allocated_pages", func(x *detail) *int64 { return &x.AllocatedPages }},
		{"rb_objspace.profile.total_allocated_pages", func(x *detail) *int64 { return &x.PagesMade }},
		{"rb_objspace.profile.total_freed_pages", func(x *detail) *int64 { return &x.PagesFreed }},
	}
	if counted {
		pages = []figurePlace[detail]{
			{"rb_objspace.heap_pages.allocated_pages", func(x *detail) *int64 { return &x.PagesMade }},
			{"rb_objspace.heap_pages.freed_pages", func(x *detail) *int64 { return &x.PagesFreed }},
		}
	}
	return append(pages, []figurePlace[detail]{
		{"rb_objspace.profile.compact_count", func(x *detail) *int64 { return &x.Compactions }},
		{"rb_objspace.rcompactor.total_moved", func(x *detail) *int64 { return &x.Moved }},
		{"rb_objspace.profile.marking_time_ns", func(x *detail) *int64 { return &x.MarkingNS }},
		{"rb_objspace.profile.sweeping_time_ns", func(x *detail) *int64 { return &x.SweepingNS }},
		{"rb_objspace.profile.total_freed_objects", func(x *detail) *int64 { return &x.Freed }},
		{"rb_objspace.marked_slots", func(x *detail) *int64 { return &x.Marked }},
		{"rb_objspace.heap_pages.final_slots", func(x *detail) *int64 { return &x.FinalSlots }},
		{"rb_objspace.empty_pages_count", func(x *detail) *int64 { return &x.EmptyPages }},
		{"rb_objspace.heap_pages.allocatable_pages", func(x *detail) *int64 { return &x.AllocatablePages }},
		{"rb_objspace.heap_pages.allocatable_slots", func(x *detail) *int64 { return &x.AllocatableSlots }},
		{"rb_objspace.heap_pages.allocatable_bytes", func(x *detail) *int64 { return &x.AllocatableBytes }},
		{"rb_objspace.malloc_params.increase|malloc_counters.increase", func(x *detail) *int64 { return &x.MallocIncrease }},
		{"rb_objspace.malloc_params.limit", func(x *detail) *int64 { return &x.MallocLimit }},
		{"rb_objspace.rgengc.oldmalloc_increase|malloc_counters.oldmalloc_increase",
			func(x *detail) *int64 { return &x.OldMallocIncrease }},
		{"rb_objspace.rgengc.oldmalloc_increase_limit", func(x *detail) *int64 { return &x.OldMallocLimit }},
		{"rb_objspace.rgengc.old_objects", func(x *detail) *int64 { return &x.OldObjects }},
		{"rb_objspace.rgengc.old_objects_limit", func(x *detail) *int64 { return &x.OldObjectsLimit }},
		{"rb_objspace.rgengc.uncollectible_wb_unprotected_objects", func(x *detail) *int64 { return &x.Unprotected }},
		{"rb_objspace.rgengc.uncollectible_wb_unprotected_objects_limit", func(x *detail) *int64 { return &x.UnprotectedLimit }},
		{"rb_objspace.profile.weak_references_count", func(x *detail) *int64 { return &x.WeakReferences }},
		{"rb_objspace.profile.retained_weak_references_count", func(x *detail) *int64 { return &x.RetainedWeakReferences }},
	}...)
}

// heapFigures lists the counters of one heap and their places in a layout table. Up to 3.0 there is only one heap, and
// its counters are in eden_heap and tomb_heap of rb_objspace. Up to 3.3 each size pool has an eden_heap and a
// tomb_heap. From 3.4 on each heap has its counters directly.
func heapFigures() []figurePlace[sampler.GCHeap] {
	type heap = sampler.GCHeap
	return []figurePlace[heap]{
		{"rb_size_pool_struct|rb_heap_struct.slot_size", func(h *heap) *int64 { return &h.SlotSize }},
		{"rb_objspace|rb_size_pool_struct|rb_heap_struct.eden_heap.total_pages|total_pages", func(h *heap) *int64 { return &h.Pages }},
		{"rb_objspace|rb_size_pool_struct|rb_heap_struct.eden_heap.total_slots|total_slots", func(h *heap) *int64 { return &h.Slots }},
		{"rb_objspace|rb_size_pool_struct.tomb_heap.total_pages", func(h *heap) *int64 { return &h.TombPages }},
		{"rb_objspace|rb_size_pool_struct.tomb_heap.total_slots", func(h *heap) *int64 { return &h.TombSlots }},
		{"rb_size_pool_struct|rb_heap_struct.total_freed_objects", func(h *heap) *int64 { return &h.Freed }},
		{"rb_heap_struct.final_slots_count", func(h *heap) *int64 { return &h.Final }},
		{"rb_size_pool_struct.allocatable_pages", func(h *heap) *int64 { return &h.AllocatablePages }},
		{"rb_size_pool_struct|rb_heap_struct.total_allocated_pages", func(h *heap) *int64 { return &h.PagesMade }},
		{"rb_size_pool_struct.total_freed_pages", func(h *heap) *int64 { return &h.PagesFreed }},
		{"rb_size_pool_struct|rb_heap_struct.force_major_gc_count", func(h *heap) *int64 { return &h.ForcedMajor }},
		{"rb_size_pool_struct|rb_heap_struct.force_incremental_marking_finish_count",
			func(h *heap) *int64 { return &h.ForcedFinish }},
	}
}

// Tags returns the layout tags of this package. A test compares them with the tables.
func Tags() (tags []string) {
	for _, tag := range places.Tagged(new(gcPlaces), new(lockPlaces), new(newobjCounters), new(newobjPlaces), new(heapPage),
		new(pageList), new(gcDetailPlaces)) {
		tags = append(tags, tag)
	}
	for _, f := range slices.Concat(detailFigures(false), detailFigures(true)) {
		tags = append(tags, f.layout)
	}
	for _, f := range heapFigures() {
		tags = append(tags, f.layout)
	}
	return tags
}

// figuresOf returns the figures that the VM's release has.
func figuresOf[T any](t *Target, figures []figurePlace[T]) (list []figure[T]) {
	for _, p := range figures {
		place, err := places.Parse(p.layout)
		if f := place.Field(t.Table, t.Release); err == nil && f.Known() {
			list = append(list, figure[T]{f, p.to})
		}
	}
	return list
}

func (d *gcDetail) init(t *Target, pools *gcPools) {
	if t.resolve(&d.gcDetailPlaces) != nil || d.size > maxObjspace {
		return
	}
	d.buf = make([]byte, d.size)
	counted := d.emptyPages >= 0
	if !counted {
		d.sorted = -1
	}
	d.figures, d.heaps = figuresOf(t, detailFigures(counted)), figuresOf(t, heapFigures())
	d.heapCount = 1
	if pools.pools.Known() {
		d.heapsAt, d.heapSize, d.heapCount = pools.pools.Offset, pools.poolSize, pools.poolCount()
	}
	has := func(of func(*sampler.GCHeap) *int64) bool {
		var h sampler.GCHeap
		return slices.ContainsFunc(d.heaps, func(f figure[sampler.GCHeap]) bool { return f.to(&h) == of(&h) })
	}
	d.freedPerHeap = has(func(h *sampler.GCHeap) *int64 { return &h.Freed })
	d.finalPerHeap = has(func(h *sampler.GCHeap) *int64 { return &h.Final })
	d.madePerHeap = has(func(h *sampler.GCHeap) *int64 { return &h.PagesMade })
}

// ReadDetail sets s.GCDetail. If the last reading is too long ago, it reads the figures again. It returns false if the
// collector's struct differs from the layout table, so that no figure can be trusted.
func (g *Reader) ReadDetail(s *sampler.Sample) bool {
	s.GCDetail = sampler.GCDetail{}
	if !s.GC.Valid || g.detail.buf == nil {
		return true
	}
	d := &g.detail
	age := s.TimeNS - d.lastNS
	if d.lastNS == 0 || age >= gcDetailNS || age >= gcDetailAfterNS && s.GC.Count != d.lastCount {
		d.lastNS, d.lastCount = s.TimeNS, s.GC.Count
		if !g.fetchDetail() {
			s.GC = sampler.GC{}
			return false
		}
	}
	s.GCDetail = d.now
	return true
}

// fetchDetail reads the whole of rb_objspace. If the reading fails, the earlier figures stay, together with their time.
// It returns false if the struct differs from the layout table.
func (g *Reader) fetchDetail() bool {
	d := &g.detail
	g.batch = g.PlanBefore(g.batch[:0])
	whole := len(g.batch)
	g.batch = g.PlanAfter(append(g.batch, attach.Range{Addr: g.Objspace, Buf: d.buf}))
	calls, err := g.Mem.ReadBatch(g.batch)
	g.Reads.Calls += uint64(calls)
	if err != nil || g.batch[whole].Failed || !g.TakeCounters(g.batch) {
		g.Reads.Failed++
		return true
	}
	var pages [8]byte
	pagesKnown := false
	if d.sorted >= 0 {
		if at := attach.Address(view.U64(d.buf[d.sorted:])); at != 0 && g.Mem.Read(at, pages[:]) == nil {
			pagesKnown = true
		}
		g.Reads.Calls++
	}
	d.decode(&d.now, &g.alloc)
	if n := d.now.Heaps[0].SlotSize; d.heapCount > 0 && n != slotSize && n != minSlotSize {
		return false
	}
	if pagesKnown {
		d.now.AllocatedPages = int64(view.U64(pages[:]))
	}
	d.now.AtNS, d.now.Uncounted, d.now.MovesCounted = g.Now(), g.alloc.uncounted, d.sorted >= 0
	return true
}

// decode turns the copy of rb_objspace into figures. The number of allocated objects comes from alloc, because some
// objects are only in the counters of the ractors' caches.
func (d *gcDetail) decode(out *sampler.GCDetail, alloc *allocCounter) {
	*out = sampler.GCDetail{}
	for _, f := range out.Fields() {
		*f = sampler.GCUnknown
	}
	flag := func(f layout.Field) bool { return f.Known() && f.In(d.buf) != 0 }
	out.Disabled, out.Stress, out.Measuring = flag(d.disabled), flag(d.stress), flag(d.measuring)
	out.Incremental, out.Compacting = flag(d.incremental), flag(d.compacting)
	if d.nextMajor.Known() {
		out.NextMajor = uint32(d.nextMajor.In(d.buf))
	}
	for _, f := range d.figures {
		*f.to(out) = int64(f.In(d.buf))
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
			*f.to(h) = int64(f.In(d.buf[d.heapsAt+i*d.heapSize:]))
		}
	}
	out.Allocated = int64(alloc.total())
	d.sum(out)
}

// sinceCycle returns how many bytes were allocated with malloc since the last cycle, minus the bytes freed since then.
// The target has four counters in a row: malloc, free, and the values of both at the last cycle.
func (d *gcDetail) sinceCycle(malloc, free int) int64 {
	w := func(off int) int64 { return int64(view.U64(d.buf[off:])) }
	return max(0, w(malloc)-w(malloc+16)-(w(free)-w(free+16)))
}

// sum computes the figures that are sums over heaps, or differences of other figures. With several ractors Ruby can
// lose counts, and ZJIT does not count everything. So a difference can be negative. sum then sets it to 0, where Ruby's
// own figure would wrap around to a huge number.
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
