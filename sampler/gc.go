package sampler

// These are the bits of GC.Reason and GCDetail.NextMajor. Ruby calls them GPR_FLAG_…. They are the same on every
// release (docs/internals/gc.md#reasons). If several bits are set, Ruby reports only the first of them in this order.
const (
	GCMajorByNoFree    = 0x01
	GCMajorByOldGen    = 0x02
	GCMajorByShady     = 0x04
	GCMajorByForce     = 0x08
	GCMajorByOldMalloc = 0x20
	gcMajorMask        = 0xff

	GCByNewObject = 0x100
	GCByMalloc    = 0x200
	GCByMethod    = 0x400
	GCByCAPI      = 0x800
	GCByStress    = 0x1000

	GCCompact = 0x20000
)

type gcWord struct {
	bit  uint32
	word string
}

var gcMajorWords = [...]gcWord{{GCMajorByNoFree, "nofree"}, {GCMajorByOldGen, "oldgen"}, {GCMajorByShady, "shady"},
	{GCMajorByForce, "force"}, {GCMajorByOldMalloc, "oldmalloc"}}

var gcTriggerWords = [...]gcWord{{GCByNewObject, "newobj"}, {GCByMalloc, "malloc"}, {GCByMethod, "method"},
	{GCByCAPI, "capi"}, {GCByStress, "stress"}}

// GCMajorBy returns why a collection is a major one, in the words of GC.latest_gc_info(:major_by): nofree, oldgen,
// shady, force, oldmalloc. It returns "" for a minor collection.
func GCMajorBy(reason uint32) string { return firstWord(gcMajorWords[:], reason) }

// GCTrigger returns what started a garbage collection, in the words of GC.latest_gc_info(:gc_by). They are newobj (no
// free slot), malloc (the limit of malloc'ed bytes), method (GC.start, GC.compact), capi and stress. It returns ""
// before the first collection. From 3.4 on Ruby says "method" also for capi, and "newobj" under GC.stress
// (docs/internals/gc.md#reasons).
func GCTrigger(reason uint32) string { return firstWord(gcTriggerWords[:], reason) }

func firstWord(words []gcWord, bits uint32) string {
	for _, w := range words {
		if bits&w.bit != 0 {
			return w.word
		}
	}
	return ""
}

// GCIsMajor reports whether a garbage collection with this reason is a major one.
func GCIsMajor(reason uint32) bool { return reason&gcMajorMask != 0 }

// String returns the word for a phase of the collector: idle, mark, sweep, compact.
func (m GCMode) String() string { return wordOf(m, "unknown", "idle", "mark", "sweep", "compact") }

// GCUnknown is the value of a figure that the target's release of Ruby does not have.
const GCUnknown = -1

// MaxGCHeaps is the largest number of heaps in a GCDetail. There is one heap for each size of slot. Ruby has 1 heap up
// to 3.1, 5 up to 4.0, and 12 in its development branch.
const MaxGCHeaps = 16

// GCDetail holds the figures of GC.stat, GC.stat_heap and GC.latest_gc_info. ddtop reads them ten times a second, and
// soon after a collection began. Counters only grow. Figures that are called levels can also fall. A figure that the
// release of Ruby does not have is GCUnknown.
type GCDetail struct {
	// AtNS is when the figures were read, CLOCK_MONOTONIC in ns. It is zero if they never were.
	AtNS int64
	// NextMajor holds the reasons for which the next collection will be a major one (need_major_by). It is zero if
	// there is no such reason.
	NextMajor uint32
	// Disabled is set by GC.disable, and Stress by GC.stress. Incremental is true while the collector marks in steps.
	// Compacting is true if the present collection compacts the heap. Measuring is true if Ruby counts GC time
	// (GC.measure_total_time, 3.1 and later).
	Disabled, Stress, Incremental, Compacting, Measuring bool
	// Uncounted means that no counter of Ruby includes the objects that inlined code makes (ZJIT of 4.1). The figures
	// of allocations and slots are then too low. The figures of GC.stat itself are too low for the same reason.
	Uncounted bool
	// MovesCounted means that Ruby's counters are too high by the number of objects that a compaction moves. Ruby
	// counts each moved object as freed once and allocated once more (3.4 and later:
	// docs/internals/gc.md#counting-allocations).
	MovesCounted bool
	// Compactions is compact_count of GC.stat. Moved counts the objects that compactions of the heap have moved.
	Compactions, Moved int64
	// MarkingNS and SweepingNS are how long the collector marked and swept, as Ruby itself measures it, in ns of the
	// process's CPU time. Ruby measures this from 3.3 on (docs/internals/gc.md#time).
	MarkingNS, SweepingNS int64
	// Allocated and Freed count objects since the process started. Live (a level) counts all objects that are not swept
	// yet, dead ones included. Marked (a level) counts the objects that survived the last marking. So Marked is the
	// true number of live objects at that time.
	Allocated, Freed, Live, Marked int64
	// AvailableSlots, FreeSlots and FinalSlots are levels. They count the slots of all pages, the free slots, and the
	// slots whose objects wait for a finalizer.
	AvailableSlots, FreeSlots, FinalSlots int64
	// AllocatedPages, EdenPages, TombPages and EmptyPages are levels. PagesMade and PagesFreed are counters.
	AllocatedPages, EdenPages, TombPages, EmptyPages, PagesMade, PagesFreed int64
	// AllocatablePages (up to 3.3), AllocatableSlots (3.4, 4.0) and AllocatableBytes (later) say how much the heap may
	// still grow before the next collection. They are levels.
	AllocatablePages, AllocatableSlots, AllocatableBytes int64
	// MallocIncrease is the number of malloc'ed bytes minus the freed bytes since the last collection. When it reaches
	// MallocLimit, a collection starts. OldMallocIncrease and OldMallocLimit are the same for the next major
	// collection. From 4.0 on Ruby's count of the increase lags by up to 8 KiB per native thread.
	MallocIncrease, MallocLimit, OldMallocIncrease, OldMallocLimit int64
	// OldObjects and Unprotected (remembered objects without a write barrier) are levels. If one of them reaches its
	// limit, the next collection is a major one.
	OldObjects, OldObjectsLimit, Unprotected, UnprotectedLimit int64
	// WeakReferences counts the weak references that the last collection found, and RetainedWeakReferences those that
	// it kept (3.3 and later).
	WeakReferences, RetainedWeakReferences int64
	// HeapCount is the number of heaps that Ruby has. They are the first elements of Heaps. The other elements are
	// zero.
	HeapCount int32
	Heaps     [MaxGCHeaps]GCHeap
}

// GCHeap is one of Ruby's heaps. All of its slots have the same size.
type GCHeap struct {
	// SlotSize is in bytes. Slots and Pages count the slots and pages in use. TombSlots and TombPages count those that
	// Ruby can return to the system (up to 3.3). The last four are levels.
	SlotSize, Slots, Pages, TombSlots, TombPages int64
	// Allocated, Freed and Final count the objects of this heap. Ruby counts them from 3.3 on, and Final from 3.4 on.
	Allocated, Freed, Final int64
	// AllocatablePages is how many pages Ruby may still add to this heap (up to 3.3). PagesMade and PagesFreed count
	// pages (3.2 and later).
	AllocatablePages, PagesMade, PagesFreed int64
	// ForcedMajor counts the major collections that started because this heap lacked slots. ForcedFinish counts the
	// incremental markings that had to finish at once for the same reason.
	ForcedMajor, ForcedFinish int64
}

// Fields lists the figures in a fixed order, for code that does the same with each figure. New figures are added at the
// end.
func (d *GCDetail) Fields() [31]*int64 {
	return [...]*int64{
		&d.AtNS, &d.Compactions, &d.Moved, &d.MarkingNS, &d.SweepingNS, &d.Allocated, &d.Freed, &d.Live, &d.Marked,
		&d.AvailableSlots, &d.FreeSlots, &d.FinalSlots, &d.AllocatedPages, &d.EdenPages, &d.TombPages, &d.EmptyPages,
		&d.PagesMade, &d.PagesFreed, &d.AllocatablePages, &d.AllocatableSlots, &d.AllocatableBytes, &d.MallocIncrease,
		&d.MallocLimit, &d.OldMallocIncrease, &d.OldMallocLimit, &d.OldObjects, &d.OldObjectsLimit, &d.Unprotected,
		&d.UnprotectedLimit, &d.WeakReferences, &d.RetainedWeakReferences,
	}
}

// Flags lists the figures that are true or false, in a fixed order.
func (d *GCDetail) Flags() [7]*bool {
	return [...]*bool{&d.Disabled, &d.Stress, &d.Incremental, &d.Compacting, &d.Measuring, &d.Uncounted, &d.MovesCounted}
}

// Fields lists the figures of one heap in a fixed order.
func (h *GCHeap) Fields() [13]*int64 {
	return [...]*int64{&h.SlotSize, &h.Slots, &h.Pages, &h.TombSlots, &h.TombPages, &h.Allocated, &h.Freed, &h.Final,
		&h.AllocatablePages, &h.PagesMade, &h.PagesFreed, &h.ForcedMajor, &h.ForcedFinish}
}

// AllocPair is the number of objects that were allocated in the few µs before ddtop read one thread's frames. To
// measure this, one system call reads Ruby's object counter twice, and then the frames. The pairs of many samples show
// which stacks allocate. Each stack's sum of Objects is in proportion to its allocations, whatever the rate of sampling
// (docs/internals/gc.md#who-allocates).
type AllocPair struct {
	// Thread is the thread that held the GVL while the objects were allocated, just before the frames were read. The
	// objects are counted for its Stack in the same Sample. Zero means that no thread held the GVL.
	Thread ThreadID
	// Objects is how much the object counter grew between the two times it was read. It is 0 in most samples.
	Objects uint32
}
