package sampler

import (
	"cmp"

	"github.com/ddtop/ddtop/internal/sorting"
)

// Bounds of a HeapCount.
const (
	// MaxHeapWords limits how many different class pointers one count of the heap can distinguish. An object points to
	// its class, or to its singleton class if it has one. Objects with class pointers beyond this limit count as
	// AllocOthers.
	MaxHeapWords = 1 << 16
	// MaxHeapClasses is the largest number of classes in a HeapCount. If there are more classes, those with the fewest
	// bytes are counted together as AllocOthers.
	MaxHeapClasses = 4096
	// MaxHeapPlaces limits how many places of allocation (lines of code) a HeapCount lists. If there are more, it lists
	// those with the most bytes.
	MaxHeapPlaces = 4096
)

// HeapCount is the result of one pass over the pages of Ruby's heap. The target runs on during the pass, unless Pause
// is set. So an object that lives only during a part of the pass may be missed. All other objects are counted exactly.
type HeapCount struct {
	// BeganNS and EndedNS are the times of the pass, CLOCK_MONOTONIC in ns. CPUNS is the CPU time that ddtop used for
	// it, or zero if it was not measured.
	BeganNS, EndedNS, CPUNS int64
	// Pages counts the pages that were read. Skipped counts the pages that Ruby freed or replaced during the pass. Cut
	// means that the heap has more pages than a pass reads.
	Pages, Skipped int
	Cut            bool
	// Repeated counts the passes that were thrown away because Ruby moved objects during them. Compacted means that
	// objects also moved during the last pass, so its figures can be wrong.
	Repeated  int
	Compacted bool
	// Collections is how many garbage collections had happened from the target's start to the pass, and Majors how many
	// of them were major ones. Marking is true if a collection was marking when the pass began.
	Collections, Majors uint64
	Marking             bool
	// Objects, Dead and Free count slots. An Objects slot has an object. A Dead slot has an object that a collection
	// found dead but did not sweep yet. A Free slot is empty.
	Objects, Dead, Free uint64
	// Types counts objects by their types, as ObjectSpace.count_objects names them. Classes counts the same objects by
	// their classes. Each list begins with the entry that has the most bytes.
	Types, Classes []HeapKind
	// Sizes are the sizes of slots, from small to large.
	Sizes []HeapSize
	// SurvivedKnown means that HeapKind.Survived is known. It is false for a heap dump that was read from a file,
	// because such files do not store it.
	SurvivedKnown bool
	// Traced says where in the program objects were allocated. It is nil unless the target traces allocations.
	Traced *HeapTraced
	// Pause describes the stop of the target. During the stop ddtop copied the target's memory. It then counted the
	// objects in the copy. Pause is nil if the target was not stopped.
	Pause *HeapPause
}

// HeapTraced says where in the program objects were allocated. The target recorded this itself
// (ObjectSpace.trace_object_allocations_start).
type HeapTraced struct {
	// Objects is how many objects have a known place of allocation. The other objects were allocated before the tracing
	// began, during ddtop's pass, or by C code outside any method.
	Objects uint64
	// Misfits counts the target's records that were left out. They changed during the pass, or do not fit the object
	// that they describe.
	Misfits uint64
	// Cut means that records are missing. Either the target has more records than ddtop reads, or it changed the table
	// of records too fast.
	Cut bool
	// Places are sorted by their bytes: the place with the most bytes comes first.
	Places []HeapPlace
}

// HeapPlace describes the objects of one class that one line of the program allocated.
type HeapPlace struct {
	Class string
	Path  string
	Line  int
	// Method is the innermost method on the stack at the allocation, such as "Class#new". It can be a method written in
	// C. It is empty if the allocation was outside methods.
	Method string
	// Objects and Bytes count only the objects of the class that this line of code allocated. HeapCount.Classes counts
	// all objects of the class.
	Objects, Bytes uint64
}

// HeapKind has the figures for all objects of one type, or of one class.
type HeapKind struct {
	Name    string
	Objects uint64
	// Old is how many objects the collector treats as old, because they have survived three or more collections.
	Old uint64
	// Survived is how many objects have survived one or two collections, and so are not old yet. The objects that are
	// neither in Old nor in Survived are new.
	Survived uint64
	// SlotBytes is the size of the slots of all objects of this kind. OtherBytes is the memory outside of slots that
	// only these objects use, such as the bytes of long Strings.
	SlotBytes, OtherBytes uint64
	// Unsized is how many objects may have memory outside of slots whose size is not known. OtherBytes does not include
	// this memory.
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

// Bytes returns the size of the slots and of the memory outside of slots.
func (k *HeapKind) Bytes() uint64 { return k.SlotBytes + k.OtherBytes }

// SortHeapKinds sorts the list by bytes, so that the kind with the most bytes comes first.
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
	// Fullness counts pages by the share of their slots that have an object. Its five elements are for pages without
	// objects, for pages filled below a tenth, below a half, and below nine tenths, and for fuller pages.
	Fullness [5]int
}

// Page counts one more page. slots is how many slots it has, and filled how many of them have an object.
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
