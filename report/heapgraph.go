package report

// HeapGraph is the JSON of `ddtop heap` with --holders or --biggest: the references between objects of a process. It
// has only names and sizes, never the contents of objects.
type HeapGraph struct {
	// File was read instead of a process. It is null for a process. Only a core file has a PID and a time.
	File  *string  `json:"file"`
	PID   int      `json:"pid"`
	Title string   `json:"title"`
	Ruby  DumpRuby `json:"ruby"`
	// Time is the end of the copy by the process's wall clock, RFC 3339. MonotonicNS is the same by CLOCK_MONOTONIC.
	Time        string `json:"time"`
	MonotonicNS int64  `json:"monotonic_ns"`
	// ReadNS is how long the copy took, CPUNS the CPU time that it cost ddtop. CPUNS is null if it was not measured.
	ReadNS int64  `json:"read_ns"`
	CPUNS  *int64 `json:"cpu_ns"`
	// PauseNS is how long the process stood still while CopiedBytes of its memory were copied. Both are null if it ran
	// on.
	PauseNS     *int64  `json:"pause_ns"`
	CopiedBytes *uint64 `json:"copied_bytes"`
	// Objects and References were found.
	Objects    uint64 `json:"objects"`
	References uint64 `json:"references"`
	// PagesSkipped counts pages that changed while they were read. Unread counts pieces of other memory that could not
	// be read. Cut means that the heap has more pages.
	PagesSkipped int  `json:"pages_skipped"`
	Unread       int  `json:"unread"`
	Cut          bool `json:"cut"`
	// Compacted means that objects moved during the copy, so that much can be wrong. Repeated is how many copies were
	// thrown away because objects moved.
	Compacted bool `json:"compacted"`
	Repeated  int  `json:"repeated"`
	// Holders is null without --holders, Biggest without --biggest.
	Holders *HeapHolders `json:"holders"`
	Biggest *HeapBiggest `json:"biggest"`
}

// HeapHolders says who holds the objects of a class, or one object.
type HeapHolders struct {
	// Of is the class, or the address of the object.
	Of      string `json:"of"`
	Objects int    `json:"objects"`
	Bytes   uint64 `json:"bytes"`
	// RetainedBytes would be free without these objects.
	RetainedBytes uint64 `json:"retained_bytes"`
	// Unreached objects are garbage, or held by something that was not read.
	Unreached      int        `json:"unreached"`
	UnreachedBytes uint64     `json:"unreached_bytes"`
	Paths          []HeapPath `json:"paths"`
	// MorePaths hold the rest.
	MorePaths int `json:"more_paths"`
}

// HeapPath is how some objects are held.
type HeapPath struct {
	// Path is the whole as one line.
	Path  string     `json:"path"`
	Root  string     `json:"root"`
	Steps []HeapStep `json:"steps"`
	// Cut means that steps in the middle are left out.
	Cut           bool   `json:"cut"`
	Objects       int    `json:"objects"`
	Bytes         uint64 `json:"bytes"`
	RetainedBytes uint64 `json:"retained_bytes"`
	// HolderRetainedBytes would be free without the first object of the path.
	HolderRetainedBytes uint64 `json:"holder_retained_bytes"`
}

// HeapStep is an object on a path.
type HeapStep struct {
	Class string `json:"class"`
	// In is the constant or variable that it is in. It is null for an element.
	In *string `json:"in"`
	// Repeated means that more objects of this kind follow each other.
	Repeated bool `json:"repeated"`
}

// HeapBiggest lists the largest objects.
type HeapBiggest struct {
	Strings []HeapBig `json:"strings"`
	Arrays  []HeapBig `json:"arrays"`
	Hashes  []HeapBig `json:"hashes"`
	// Copies are Strings that equal others.
	Copies HeapCopies `json:"copies"`
}

// HeapBig is one large object, or the first of several equal Strings.
type HeapBig struct {
	Class   string `json:"class"`
	Address string `json:"address"`
	Bytes   uint64 `json:"bytes"`
	// Length is in bytes of a String, and in elements of others.
	Length        uint64 `json:"length"`
	RetainedBytes uint64 `json:"retained_bytes"`
	// Path is null if no root reaches the object.
	Path *string `json:"path"`
	// Objects are equal, and all but the largest waste WastedBytes. Both are missing for other objects.
	Objects     int    `json:"objects,omitempty"`
	WastedBytes uint64 `json:"wasted_bytes,omitempty"`
}

// HeapCopies says how many Strings have the same bytes as another one.
type HeapCopies struct {
	// Compared Strings have bytes of their own, at most 4 KiB. Different of them are different.
	Compared    int       `json:"compared"`
	Different   int       `json:"different"`
	WastedBytes uint64    `json:"wasted_bytes"`
	Groups      []HeapBig `json:"groups"`
}
