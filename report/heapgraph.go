package report

// HeapGraph is the JSON of `ddtop heap` with --holders or --biggest: the references between the objects of a process.
// It contains only names and sizes, never the contents of objects.
type HeapGraph struct {
	// File is the name of the file that was read. It is null if ddtop read a process. PID and the times are known only
	// if ddtop read a process or a core file.
	File  *string  `json:"file"`
	PID   int      `json:"pid"`
	Title string   `json:"title"`
	Ruby  DumpRuby `json:"ruby"`
	// Time is when ddtop finished copying the process's memory, by the wall clock that the process sees, in RFC 3339.
	// MonotonicNS is the same time by CLOCK_MONOTONIC.
	Time        string `json:"time"`
	MonotonicNS int64  `json:"monotonic_ns"`
	// ReadNS is how long it took to copy the process's memory. CPUNS is the CPU time that ddtop used for it. CPUNS is
	// null if it was not measured.
	ReadNS int64  `json:"read_ns"`
	CPUNS  *int64 `json:"cpu_ns"`
	// PauseNS is how long ddtop stopped the process to copy CopiedBytes of its memory. Both are null if ddtop did not
	// stop the process.
	PauseNS     *int64  `json:"pause_ns"`
	CopiedBytes *uint64 `json:"copied_bytes"`
	// Objects is the number of objects that were found. References is the number of references between them.
	Objects    uint64 `json:"objects"`
	References uint64 `json:"references"`
	// PagesSkipped counts heap pages that changed while they were read. Unread counts other areas of memory that could
	// not be read. Cut means that the heap has more pages than ddtop reads.
	PagesSkipped int  `json:"pages_skipped"`
	Unread       int  `json:"unread"`
	Cut          bool `json:"cut"`
	// Compacted means that Ruby moved objects while ddtop copied the memory, so that many references can be wrong.
	// Repeated is the number of copies that ddtop discarded for this reason and repeated.
	Compacted bool `json:"compacted"`
	Repeated  int  `json:"repeated"`
	// Holders is null without the flag --holders. Biggest is null without the flag --biggest.
	Holders *HeapHolders `json:"holders"`
	Biggest *HeapBiggest `json:"biggest"`
}

// HeapHolders says which references keep objects alive. The objects are all objects of a class, or a single object.
type HeapHolders struct {
	// Of is the class or the object that the user asked about: the name of the class, or the address of the object.
	Of      string `json:"of"`
	Objects int    `json:"objects"`
	Bytes   uint64 `json:"bytes"`
	// RetainedBytes is the memory that the collector would free if these objects were garbage.
	RetainedBytes uint64 `json:"retained_bytes"`
	// Unreached is the number of objects to which ddtop found no path of references. Such an object is garbage, or only
	// memory that ddtop did not read refers to it.
	Unreached      int        `json:"unreached"`
	UnreachedBytes uint64     `json:"unreached_bytes"`
	Paths          []HeapPath `json:"paths"`
	// MorePaths is the number of paths that are left out of Paths, because there were too many.
	MorePaths int `json:"more_paths"`
}

// HeapPath is one path of references from a root to some of the objects.
type HeapPath struct {
	// Path is the whole path as text, on one line.
	Path  string     `json:"path"`
	Root  string     `json:"root"`
	Steps []HeapStep `json:"steps"`
	// Cut means that steps in the middle of the path are left out, because the path was too long.
	Cut           bool   `json:"cut"`
	Objects       int    `json:"objects"`
	Bytes         uint64 `json:"bytes"`
	RetainedBytes uint64 `json:"retained_bytes"`
	// HolderRetainedBytes is the memory that the collector would free if the first object of the path were garbage.
	HolderRetainedBytes uint64 `json:"holder_retained_bytes"`
}

// HeapStep is an object on a path.
type HeapStep struct {
	Class string `json:"class"`
	// The field In names the constant or variable that refers to the object. It is null if the object is an element of
	// another object.
	In *string `json:"in"`
	// Repeated means that this step stands for several objects of the same kind, which follow each other on the path.
	Repeated bool `json:"repeated"`
}

// HeapBiggest lists the largest objects of the process.
type HeapBiggest struct {
	Strings []HeapBig `json:"strings"`
	Arrays  []HeapBig `json:"arrays"`
	Hashes  []HeapBig `json:"hashes"`
	// Copies counts the Strings that have the same bytes as another String.
	Copies HeapCopies `json:"copies"`
}

// HeapBig is one large object, or the first one of several equal Strings.
type HeapBig struct {
	Class   string `json:"class"`
	Address string `json:"address"`
	Bytes   uint64 `json:"bytes"`
	// Length is in bytes for a String, and in elements for other objects.
	Length        uint64 `json:"length"`
	RetainedBytes uint64 `json:"retained_bytes"`
	// Path is a path of references from a root to the object. It is null if there is no such path.
	Path *string `json:"path"`
	// For a group of Strings with the same bytes, Objects is their number. WastedBytes is the memory of all of them
	// except the largest one. If the entry is a single object, both keys are missing.
	Objects     int    `json:"objects,omitempty"`
	WastedBytes uint64 `json:"wasted_bytes,omitempty"`
}

// HeapCopies counts the Strings that have the same bytes as another String.
type HeapCopies struct {
	// Compared is the number of Strings that were compared. A String is left out if it has more than 4 KiB, or shares
	// its bytes with another String. Different is the number of different contents among the compared Strings.
	Compared    int       `json:"compared"`
	Different   int       `json:"different"`
	WastedBytes uint64    `json:"wasted_bytes"`
	Groups      []HeapBig `json:"groups"`
}
