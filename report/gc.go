package report

import (
	"github.com/ddtop/ddtop/sampler"
)

// StatGCPhases splits the time inside the collector into phases. The time comes from samples. The sum of the phases is
// StatGC.NS, except for gaps.
type StatGCPhases struct {
	Mark    int64 `json:"mark"`
	Sweep   int64 `json:"sweep"`
	Compact int64 `json:"compact"`
	// Other is the time inside the collector that belongs to no phase, such as the time to set up, and to update
	// references after compaction.
	Other int64 `json:"other"`
}

// StatGCBy counts collections by the event that started them. The names are Ruby's (docs/reference/json.md).
type StatGCBy struct {
	NewObj uint64 `json:"newobj"`
	Malloc uint64 `json:"malloc"`
	Method uint64 `json:"method"`
	CAPI   uint64 `json:"capi"`
	Stress uint64 `json:"stress"`
	// Unknown counts collections whose reason is not known. Ruby keeps only the reason of the last collection. For
	// these collections, the next collection began before ddtop read the reason.
	Unknown uint64 `json:"unknown"`
}

// StatGCMajorBy counts major collections by the reason why they were major. The names are Ruby's.
type StatGCMajorBy struct {
	NoFree    uint64 `json:"nofree"`
	OldGen    uint64 `json:"oldgen"`
	Shady     uint64 `json:"shady"`
	Force     uint64 `json:"force"`
	OldMalloc uint64 `json:"oldmalloc"`
}

// StatGCTrigger is code in which collections began. Seen counts the collections that were still running in the first
// sample after they began. For these, the code is certain. Probable counts the collections that had already ended at
// this sample. They began in this code or shortly before it ran.
type StatGCTrigger struct {
	StatCode
	Seen     uint64 `json:"seen"`
	Probable uint64 `json:"probable"`
}

// StatGCPayer is code whose thread worked for the collector. NS is the time that the thread spent there, in ns. Share
// (0 to 1) is NS divided by the time of all such code.
type StatGCPayer struct {
	StatCode
	NS    int64   `json:"ns"`
	Share float64 `json:"share"`
}

// GCFigures are the figures of GC.stat and GC.stat_heap at one moment, with the names of Ruby 3.4. If a release of Ruby
// does not have a figure, it is null.
type GCFigures struct {
	AtNS int64 `json:"monotonic_ns"`
	// Disabled is set if the program has called GC.disable, and Stress if it has set GC.stress. Incremental is true
	// while the collector marks in steps. Measuring is true if Ruby measures the time of collections.
	Disabled    bool `json:"disabled"`
	Stress      bool `json:"stress"`
	Incremental bool `json:"incremental_marking"`
	Measuring   bool `json:"measure_total_time"`
	// Uncounted is set if ZJIT, a compiler of Ruby, creates objects that Ruby's counters do not include. Then the
	// numbers of allocations and slots are wrong, here and in GC.stat.
	Uncounted bool `json:"uncounted"`
	// NeedMajorBy is the reason why the next collection will be a major one. It is null if there is no such reason.
	NeedMajorBy *string `json:"need_major_by"`

	CompactCount     *int64 `json:"compact_count"`
	Moved            *int64 `json:"total_moved_objects"`
	MarkingNS        *int64 `json:"marking_ns"`
	SweepingNS       *int64 `json:"sweeping_ns"`
	Allocated        *int64 `json:"total_allocated_objects"`
	Freed            *int64 `json:"total_freed_objects"`
	Live             *int64 `json:"heap_live_slots"`
	Marked           *int64 `json:"heap_marked_slots"`
	Available        *int64 `json:"heap_available_slots"`
	Free             *int64 `json:"heap_free_slots"`
	Final            *int64 `json:"heap_final_slots"`
	AllocatedPages   *int64 `json:"heap_allocated_pages"`
	EdenPages        *int64 `json:"heap_eden_pages"`
	TombPages        *int64 `json:"heap_tomb_pages"`
	EmptyPages       *int64 `json:"heap_empty_pages"`
	PagesMade        *int64 `json:"total_allocated_pages"`
	PagesFreed       *int64 `json:"total_freed_pages"`
	AllocatablePages *int64 `json:"heap_allocatable_pages"`
	AllocatableSlots *int64 `json:"heap_allocatable_slots"`
	AllocatableBytes *int64 `json:"heap_allocatable_bytes"`
	Malloc           *int64 `json:"malloc_increase_bytes"`
	MallocLimit      *int64 `json:"malloc_increase_bytes_limit"`
	OldMalloc        *int64 `json:"oldmalloc_increase_bytes"`
	OldMallocLimit   *int64 `json:"oldmalloc_increase_bytes_limit"`
	Old              *int64 `json:"old_objects"`
	OldLimit         *int64 `json:"old_objects_limit"`
	Unprotected      *int64 `json:"remembered_wb_unprotected_objects"`
	UnprotectedLimit *int64 `json:"remembered_wb_unprotected_objects_limit"`
	Weak             *int64 `json:"weak_references_count"`
	WeakRetained     *int64 `json:"retained_weak_references_count"`

	// Heaps has the figures of each heap. All slots of one heap have the same size. Up to Ruby 3.1 there is only one
	// heap.
	Heaps []GCHeapFigures `json:"heaps"`
}

// GCHeapFigures has the figures of one of Ruby's heaps. All slots of a heap have the same size. The keys are those in
// GC.stat_heap.
type GCHeapFigures struct {
	SlotSize         *int64 `json:"slot_size"`
	EdenPages        *int64 `json:"heap_eden_pages"`
	EdenSlots        *int64 `json:"heap_eden_slots"`
	TombPages        *int64 `json:"heap_tomb_pages"`
	TombSlots        *int64 `json:"heap_tomb_slots"`
	Allocated        *int64 `json:"total_allocated_objects"`
	Freed            *int64 `json:"total_freed_objects"`
	Final            *int64 `json:"heap_final_slots"`
	AllocatablePages *int64 `json:"heap_allocatable_pages"`
	PagesMade        *int64 `json:"total_allocated_pages"`
	PagesFreed       *int64 `json:"total_freed_pages"`
	ForcedMajor      *int64 `json:"force_major_gc_count"`
	ForcedFinish     *int64 `json:"force_incremental_marking_finish_count"`
}

// FiguresOf converts d to the form in JSON. It returns nil if d was not read.
func FiguresOf(d *sampler.GCDetail) *GCFigures {
	if d.AtNS == 0 {
		return nil
	}
	n := func(v int64) *int64 {
		if v == sampler.GCUnknown {
			return nil
		}
		return &v
	}
	f := &GCFigures{
		AtNS: d.AtNS, Disabled: d.Disabled, Stress: d.Stress, Incremental: d.Incremental, Measuring: d.Measuring,
		Uncounted: d.Uncounted, NeedMajorBy: TextOrNil(sampler.GCMajorBy(d.NextMajor)),
		CompactCount: n(d.Compactions), Moved: n(d.Moved), MarkingNS: n(d.MarkingNS), SweepingNS: n(d.SweepingNS),
		Allocated: n(d.Allocated), Freed: n(d.Freed), Live: n(d.Live), Marked: n(d.Marked), Available: n(d.AvailableSlots),
		Free: n(d.FreeSlots), Final: n(d.FinalSlots), AllocatedPages: n(d.AllocatedPages), EdenPages: n(d.EdenPages),
		TombPages: n(d.TombPages), EmptyPages: n(d.EmptyPages), PagesMade: n(d.PagesMade), PagesFreed: n(d.PagesFreed),
		AllocatablePages: n(d.AllocatablePages), AllocatableSlots: n(d.AllocatableSlots),
		AllocatableBytes: n(d.AllocatableBytes), Malloc: n(d.MallocIncrease), MallocLimit: n(d.MallocLimit),
		OldMalloc: n(d.OldMallocIncrease), OldMallocLimit: n(d.OldMallocLimit), Old: n(d.OldObjects),
		OldLimit: n(d.OldObjectsLimit), Unprotected: n(d.Unprotected), UnprotectedLimit: n(d.UnprotectedLimit),
		Weak: n(d.WeakReferences), WeakRetained: n(d.RetainedWeakReferences), Heaps: []GCHeapFigures{},
	}
	for i := range min(d.HeapCount, sampler.MaxGCHeaps) {
		h := &d.Heaps[i]
		f.Heaps = append(f.Heaps, GCHeapFigures{
			SlotSize: n(h.SlotSize), EdenPages: n(h.Pages), EdenSlots: n(h.Slots), TombPages: n(h.TombPages),
			TombSlots: n(h.TombSlots), Allocated: n(h.Allocated), Freed: n(h.Freed), Final: n(h.Final),
			AllocatablePages: n(h.AllocatablePages), PagesMade: n(h.PagesMade), PagesFreed: n(h.PagesFreed),
			ForcedMajor: n(h.ForcedMajor), ForcedFinish: n(h.ForcedFinish),
		})
	}
	return f
}
