package report

// Heap is the JSON of `ddtop heap`: the objects of a process by type and class. It contains only names and sizes, never
// the contents of objects.
type Heap struct {
	// File is the name of the file that was read. It is null if ddtop read a process. PID and the times are known only
	// if ddtop read a process or a core file.
	File  *string  `json:"file"`
	PID   int      `json:"pid"`
	Title string   `json:"title"`
	Ruby  DumpRuby `json:"ruby"`
	// Time is when the last count ended, by the wall clock that the process sees, in RFC 3339. MonotonicNS is the same
	// time by CLOCK_MONOTONIC.
	Time        string `json:"time"`
	MonotonicNS int64  `json:"monotonic_ns"`
	// ReadNS is how long the count took. CPUNS is the CPU time that ddtop used for it. CPUNS is null if it was not
	// measured.
	ReadNS int64  `json:"read_ns"`
	CPUNS  *int64 `json:"cpu_ns"`
	// PauseNS is how long ddtop stopped the process to copy CopiedBytes of its memory. Both are null if ddtop did not
	// stop the process.
	PauseNS     *int64  `json:"pause_ns"`
	CopiedBytes *uint64 `json:"copied_bytes"`
	// Pages counts the pages of Ruby's heap that were read. PagesSkipped counts the pages that were not read, because
	// Ruby freed or moved them meanwhile. Cut means that the heap has more pages than ddtop reads.
	Pages        int  `json:"pages"`
	PagesSkipped int  `json:"pages_skipped"`
	Cut          bool `json:"cut"`
	// Compacted means that Ruby moved objects during the count, so that the counts can be wrong. Repeated is the number
	// of counts that ddtop discarded for this reason and repeated.
	Compacted bool `json:"compacted"`
	Repeated  int  `json:"repeated"`
	// Marking means that the collector was marking live objects during the count. Then many of the counted Objects can
	// be garbage.
	Marking bool `json:"marking"`
	// Free counts the free slots. Objects counts the slots with objects. Unswept counts the slots whose objects are
	// dead, but which Ruby has not swept yet.
	Objects uint64 `json:"objects"`
	Unswept uint64 `json:"unswept"`
	Free    uint64 `json:"free"`
	// Bytes is the size of all objects: their slots, and the memory outside their slots that ddtop can count.
	Bytes   uint64     `json:"bytes"`
	Classes []HeapKind `json:"classes"`
	Types   []HeapKind `json:"types"`
	Slots   []HeapSlot `json:"slots"`
	// Allocated says on which lines of code the objects were allocated. It is null unless the process itself records
	// this.
	Allocated *HeapAllocated `json:"allocated"`
	// Memory splits the resident memory of the process into kinds. It is null if the memory could not be read.
	Memory *HeapMemory `json:"memory"`
	// Growth says which classes grow. It is null without the flag -d.
	Growth *HeapGrowth `json:"growth"`
}

// HeapKind describes all objects of one class or type.
type HeapKind struct {
	Name    string `json:"name"`
	Objects uint64 `json:"objects"`
	// Old is the number of objects that the collector treats as old, because they have survived several collections.
	Old uint64 `json:"old"`
	// Survived is the number of objects that have survived one or two collections, but are not old yet. It is null if
	// the objects come from a file.
	Survived *uint64 `json:"survived"`
	// Bytes is the sum of SlotBytes and OtherBytes. Share (0 to 1) is Bytes divided by the bytes of all classes.
	// RSSShare is Bytes divided by the process's resident memory. RSSShare is null if this memory could not be read.
	Bytes     uint64   `json:"bytes"`
	Share     float64  `json:"share"`
	RSSShare  *float64 `json:"rss_share"`
	SlotBytes uint64   `json:"slot_bytes"`
	// OtherBytes is the memory that the objects have outside their slots. It is null if ddtop cannot determine this
	// memory for any of the objects.
	OtherBytes *uint64 `json:"other_bytes"`
	// Unsized is the number of objects whose whole size is not known. They may have more memory than was counted.
	Unsized uint64 `json:"unsized"`
}

// HeapAllocated says on which lines of code objects were allocated, as the process itself recorded it.
type HeapAllocated struct {
	// Objects is the number of objects for which the line of allocation is known.
	Objects uint64 `json:"objects"`
	// Misfits is the number of records of allocations that are left out. A record is left out if it changed while ddtop
	// read it, or does not match its object. Cut means that the process has more records than ddtop reads, or replaced
	// the table of records too often.
	Misfits uint64 `json:"misfits"`
	Cut     bool   `json:"cut"`
	// Places has at most 4,096 lines of code that allocated objects. The one with the most bytes comes first.
	Places []HeapPlace `json:"places"`
}

// HeapPlace describes the objects of one class that were allocated on one line of the program.
type HeapPlace struct {
	Class string `json:"class"`
	Path  string `json:"path"`
	Line  int    `json:"line"`
	// Method is the innermost method at the time of the allocation. It may be written in C, such as "Class#new". It is
	// null for code outside of methods.
	Method  *string `json:"method"`
	Objects uint64  `json:"objects"`
	Bytes   uint64  `json:"bytes"`
}

// New returns the number of objects that have not survived a collection yet. It is zero if this number is not known.
func (k *HeapKind) New() uint64 {
	if k.Survived == nil {
		return 0
	}
	return k.Objects - min(k.Objects, k.Old+*k.Survived)
}

// HeapSlot describes the slots of one size.
type HeapSlot struct {
	SlotSize int    `json:"slot_size"`
	Pages    int    `json:"pages"`
	Slots    uint64 `json:"slots"`
	Filled   uint64 `json:"filled"`
	// Fullness counts the pages of the heap by how full they are. Its five numbers are for pages that are empty, less
	// than a tenth full, less than half full, less than nine tenths full, and fuller.
	Fullness [5]int `json:"fullness"`
}

// HeapGrowth compares several counts of the process's objects, to find classes that grow.
type HeapGrowth struct {
	// SpanNS is the time between the first and the last count of the objects, in ns.
	SpanNS int64 `json:"span_ns"`
	// Compared is how many of the Counts can be compared with the previous count. Two counts can be compared if a
	// collection ran between them. MajorCollections is the number of major collections between the first and the last
	// comparable count.
	Counts           int    `json:"counts"`
	Compared         int    `json:"compared"`
	MajorCollections uint64 `json:"major_collections"`
	// Enough is false if there were too few counts to say which classes grow.
	Enough  bool          `json:"enough"`
	Classes []HeapGrowing `json:"classes"`
	// Stopped are classes that grew and have stopped growing, such as caches that are full.
	Stopped []HeapStopped `json:"stopped"`
}

// HeapGrowing is a class that grows.
type HeapGrowing struct {
	Name             string  `json:"name"`
	From             uint64  `json:"from"`
	To               uint64  `json:"to"`
	ObjectsPerSecond float64 `json:"objects_per_second"`
	BytesPerSecond   float64 `json:"bytes_per_second"`
	// Confirmed means that the number of objects was higher after each of several major collections. Otherwise some of
	// the new objects can be garbage.
	Confirmed bool `json:"confirmed"`
	// Leak means that the class has grown for five minutes or more, and its growth does not slow down. A cache that
	// fills up would look the same if ddtop observed it for a shorter time.
	Leak bool `json:"leak"`
	// Place is the line of code that allocated the most objects of the class. Only objects whose line is known are
	// counted. Place is null if there are no such objects.
	Place *HeapPlace `json:"place"`
}

// HeapStopped is a class that grew at first and then stopped growing. StoppedNS is the time from the end of the growth
// to the last count, in ns.
type HeapStopped struct {
	Name             string  `json:"name"`
	From             uint64  `json:"from"`
	To               uint64  `json:"to"`
	ObjectsPerSecond float64 `json:"objects_per_second"`
	StoppedNS        int64   `json:"stopped_ns"`
}

// HeapMemory splits the resident memory of a process into kinds, in bytes.
type HeapMemory struct {
	RSSBytes uint64 `json:"rss_bytes"`
	// PSSBytes is like RSSBytes, but the size of shared memory is divided by the number of processes that share it.
	// PrivateBytes counts only memory that is not shared.
	PSSBytes     uint64 `json:"pss_bytes"`
	PrivateBytes uint64 `json:"private_bytes"`
	SwapBytes    uint64 `json:"swap_bytes"`
	// Parts splits RSSBytes into kinds of memory. The parts add up to RSSBytes.
	Parts  []HeapMemoryPart `json:"parts"`
	Malloc HeapMalloc       `json:"malloc"`
	// Copied compares the memory of the process with the memory of its parent. It is null if the process was not
	// forked, or if its parent cannot be read.
	Copied *HeapCopied `json:"copied"`
	// Grown splits the growth since the beginning of the measurement into kinds of memory. It is null without the flag
	// -d. It is also null if memory grew by less than 8 MB or less than 2 %.
	Grown *HeapMemoryGrown `json:"grown"`
	// Asks lists the code that asked the kernel for memory during the measurement. It is null unless memory outside
	// Ruby's objects grew.
	Asks *HeapAsks `json:"asks"`
	// Advice is one sentence that says what the user can do about the memory. It is null if nothing is remarkable.
	Advice *string `json:"advice"`
}

// HeapMemoryGrown splits the growth of the resident memory into parts, in bytes.
type HeapMemoryGrown struct {
	Bytes  int64 `json:"bytes"`
	SpanNS int64 `json:"span_ns"`
	// Part is the kind of memory that grew most. PartBytes is how much it grew.
	Part      string `json:"part"`
	PartBytes int64  `json:"part_bytes"`
	// RubyBytes is the growth of Ruby's heap pages, and of the memory that its objects have outside their slots.
	// FreeBytes is the growth of free blocks in malloc's arenas. FreeBytes is null if it is not known.
	RubyBytes int64  `json:"ruby_bytes"`
	FreeBytes *int64 `json:"free_bytes"`
	// The field Is names the cause of the growth: "objects", "free" (fragmentation of malloc) or "c_code".
	Is string `json:"is"`
}

// HeapAsks counts the system calls by which the process got memory from the kernel: mmap, mremap and brk, and also
// calls of mprotect by malloc's arenas.
type HeapAsks struct {
	// Missing says why the calls could not be followed. Then all other fields are zero. It is null if the calls were
	// followed.
	Missing *string `json:"missing"`
	// SpanNS is how long the calls were followed, in ns. Calls is the number of calls. Bytes is how much memory they
	// requested.
	SpanNS int64  `json:"span_ns"`
	Calls  uint64 `json:"calls"`
	Bytes  uint64 `json:"bytes"`
	// CopiedCalls counts the calls whose stacks are in Stacks. HeldKnown is false if the process may have returned
	// memory to the kernel and ddtop did not notice it. Then HeldBytes is too high.
	CopiedCalls uint64    `json:"copied_calls"`
	HeldKnown   bool      `json:"held_known"`
	Stacks      []HeapAsk `json:"stacks"`
}

// HeapAsk is a stack of code that asked the kernel for memory. Bytes is the requested memory. HeldBytes is the part of
// it that is still mapped.
type HeapAsk struct {
	Calls     uint64      `json:"calls"`
	Bytes     uint64      `json:"bytes"`
	HeldBytes uint64      `json:"held_bytes"`
	Frames    []DumpFrame `json:"frames"`
}

// HeapMemoryPart is the resident memory of one kind.
type HeapMemoryPart struct {
	Kind  string `json:"kind"`
	Bytes uint64 `json:"bytes"`
	// GrownBytes is the growth since the beginning of the measurement. It is null without the flag -d.
	GrownBytes *int64 `json:"grown_bytes"`
}

// HeapMalloc describes the memory that malloc manages in its arenas.
type HeapMalloc struct {
	// Allocator is the name of the malloc library. It is null if it is not known.
	Allocator *string `json:"allocator"`
	Arenas    int     `json:"arenas"`
	Bytes     uint64  `json:"bytes"`
	// FreeBytes is the part of Bytes that is in free blocks. It is null if this is not known for every arena.
	FreeBytes *uint64 `json:"free_bytes"`
}

// HeapCopied compares the memory of a forked process with the memory of its parent.
type HeapCopied struct {
	Parent int `json:"parent"`
	// InheritedBytes is the process's resident memory in private mappings that its parent also has. SharedBytes is the
	// part that the two processes still share. CopiedBytes is an upper bound of the part that was copied since the
	// fork.
	InheritedBytes uint64 `json:"inherited_bytes"`
	SharedBytes    uint64 `json:"shared_bytes"`
	CopiedBytes    uint64 `json:"copied_bytes"`
}

// HeapDiff is the JSON of `ddtop heap` with two files. It compares the number of objects of each class.
type HeapDiff struct {
	From    string       `json:"from"`
	To      string       `json:"to"`
	Classes []HeapChange `json:"classes"`
}

// HeapChange compares the objects of one class in two files.
type HeapChange struct {
	Name          string `json:"name"`
	ObjectsBefore uint64 `json:"objects_before"`
	Objects       uint64 `json:"objects"`
	BytesBefore   uint64 `json:"bytes_before"`
	Bytes         uint64 `json:"bytes"`
}

// Grown returns by how many bytes the objects of the class have grown. It is negative if they have shrunk.
func (c *HeapChange) Grown() int64 { return int64(c.Bytes - c.BytesBefore) }
