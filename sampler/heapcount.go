package sampler

import (
	"cmp"

	"github.com/ddtop/ddtop/internal/sorting"
)

// Bounds of a HeapCount.
const (
	// MaxHeapWords limits how many different class pointers a count distinguishes. An object points to its class, or to
	// its own singleton class if it has one. If there are more class pointers, the objects with the additional ones
	// count as AllocOthers.
	MaxHeapWords = 1 << 16
	// MaxHeapClasses limits the classes of a HeapCount. If there are more classes, the smallest ones count together as
	// AllocOthers.
	MaxHeapClasses = 4096
	// MaxHeapPlaces limits how many places of allocation a HeapCount has. If there are more, it has the ones with the
	// most bytes.
	MaxHeapPlaces = 4096
)

// HeapCount is the result of one pass over the pages of Ruby's heap. Unless Pause is set, the target runs on during the
// pass. If it runs on, objects that lived only during a part of the pass may or may not be counted. All other objects
// are counted exactly.
type HeapCount struct {
	// BeganNS and EndedNS are the times of the pass, CLOCK_MONOTONIC in ns. CPUNS is the CPU time of ddtop, or zero if
	// it was not measured.
	BeganNS, EndedNS, CPUNS int64
	// Pages counts the pages that were read. Skipped counts pages that were freed or replaced during the pass. Cut
	// means that the heap has more pages than a pass reads.
	Pages, Skipped int
	Cut            bool
	// Repeated counts the passes that were thrown away because objects moved. Compacted means that they also moved
	// during the last pass, whose figures can therefore be wrong.
	Repeated  int
	Compacted bool
	// Collections and Majors count all collections and the major ones from the target's start to the pass. Marking is
	// true if a collection was marking when the pass began.
	Collections, Majors uint64
	Marking             bool
	// Objects, Dead and Free count slots. A slot of Objects has an object. A slot of Dead has an object that a
	// collection found dead but did not sweep yet. A slot of Free is empty.
	Objects, Dead, Free uint64
	// Types counts objects by their types, as ObjectSpace.count_objects names them. Classes counts the same objects by
	// their classes. Both begin with the entry that has the most bytes.
	Types, Classes []HeapKind
	// Sizes are the sizes of slots, from small to large.
	Sizes []HeapSize
	// SurvivedKnown means that HeapKind.Survived is known. It is false for a heap dump that was read from a file,
	// because the file lacks it.
	SurvivedKnown bool
	// Traced is where objects were allocated. It is nil unless the target traces allocations.
	Traced *HeapTraced
	// Pause describes the stop of the target during which the counted memory was copied. It is nil if the target was
	// not stopped.
	Pause *HeapPause
}

// HeapTraced is where objects were allocated, as the target recorded it (ObjectSpace.trace_object_allocations_start).
type HeapTraced struct {
	// Objects is how many objects have a known place. The others were allocated before the tracing began or during the
	// pass, or by C code outside any method.
	Objects uint64
	// Misfits counts records that were left out, because they changed during the pass or do not fit their object.
	Misfits uint64
	// Cut means that records are missing. Either the target has more records than ddtop reads, or it changed their
	// table too fast.
	Cut bool
	// Places begin with the place that has the most bytes.
	Places []HeapPlace
}

// HeapPlace describes the objects of one class that one line of the program allocated.
type HeapPlace struct {
	Class string
	Path  string
	Line  int
	// Method is the innermost method, which can be written in C, such as "Class#new". It is empty outside methods.
	Method string
	// Objects and Bytes count only the objects from this place. HeapCount.Classes counts all objects of the class.
	Objects, Bytes uint64
}

// HeapKind has the figures for all objects of one type, or of one class.
type HeapKind struct {
	Name    string
	Objects uint64
	// Old is how many objects the collector treats as old. They have survived three or more collections.
	Old uint64
	// Survived is how many objects are not old, but have survived one or two collections. The objects that are neither
	// old nor counted here are new.
	Survived uint64
	// SlotBytes is the size of the slots of all these objects. OtherBytes is the memory outside of slots that belongs
	// to these objects alone.
	SlotBytes, OtherBytes uint64
	// Unsized is how many objects may have memory outside of slots whose size is not known. OtherBytes lacks this
	// memory.
	Unsized uint64
}

// Add adds the objects of another kind.
func (k *HeapKind) Add(o *HeapKind) {
	k.Objects += o.Objects
	k.Old += o.Old
	k.Survived += o.Survived
	k.SlotBytes += o.SlotBytes
	k.OtherBytes += o.OtherBytes
	k.Unsized += o.Unsized
}

// Bytes returns the size of the slots and of the other memory.
func (k *HeapKind) Bytes() uint64 { return k.SlotBytes + k.OtherBytes }

// SortHeapKinds puts the kind with most bytes first.
func SortHeapKinds(list []HeapKind) {
	sorting.By(list, func(a, b HeapKind) int {
		return cmp.Or(cmp.Compare(b.Bytes(), a.Bytes()), cmp.Compare(a.Name, b.Name))
	})
}

// HeapSize describes the pages whose slots have the same size, in bytes.
type HeapSize struct {
	SlotSize      int
	Pages         int
	Slots, Filled uint64
	// Fullness counts pages by how full they are: empty, below a tenth, below a half, below nine tenths, and fuller.
	Fullness [5]int
}

// Page adds a page. filled is how many of its slots have an object.
func (s *HeapSize) Page(slots, filled uint64) {
	s.Pages++
	s.Slots += slots
	s.Filled += filled
	i := 0
	switch {
	case filled == 0:
	case 10*filled < slots:
		i = 1
	case 2*filled < slots:
		i = 2
	case 10*filled < 9*slots:
		i = 3
	default:
		i = 4
	}
	s.Fullness[i]++
}
