package report

// HeapGraph is the JSON of `ddtop heap` with --holders or --biggest: the references between the objects of a process.
// It contains only names and sizes, never the contents of objects.
type HeapGraph struct {
	// File is the file that was read, or null for a process. PID and time are known only for a process or a core file.
	File  *string  `json:"file"`
	PID   int      `json:"pid"`
	Title string   `json:"title"`
	Ruby  DumpRuby `json:"ruby"`
	// Time is when the copy ended, by the process's wall clock, RFC 3339. MonotonicNS is the same time by
	// CLOCK_MONOTONIC.
	Time        string `json:"time"`
	MonotonicNS int64  `json:"monotonic_ns"`
	// ReadNS is how long the copy took. CPUNS is the CPU time that ddtop used for it. CPUNS is null if it was not
	// measured.
	ReadNS int64  `json:"read_ns"`
	CPUNS  *int64 `json:"cpu_ns"`
	// PauseNS is how long ddtop stopped the process to copy CopiedBytes of its memory. Both are null if ddtop did not
	// stop the process.
	PauseNS     *int64  `json:"pause_ns"`
	CopiedBytes *uint64 `json:"copied_bytes"`
	// Objects is the number of objects that were found. References is the number of references between them.
	Objects    uint64 `json:"objects"`
	References uint64 `json:"references"`
	// PagesSkipped counts pages that changed while they were read. Unread counts pieces of other memory that could not
	// be read. Cut means that the heap has more pages than ddtop reads.
	PagesSkipped int  `json:"pages_skipped"`
	Unread       int  `json:"unread"`
	Cut          bool `json:"cut"`
	// Compacted means that objects moved during the copy, so that many references can be wrong. Repeated is the number
	// of copies that were discarded because objects moved.
	Compacted bool `json:"compacted"`
	Repeated  int  `json:"repeated"`
	// Holders is null without the flag --holders. Biggest is null without the flag --biggest.
	Holders *HeapHolders `json:"holders"`
	Biggest *HeapBiggest `json:"biggest"`
}

// HeapHolders says what keeps the objects of a class, or one object, alive.
type HeapHolders struct {
	// Of is the name of the class, or the address of the object, whose holders were asked for.
	Of      string `json:"of"`
	Objects int    `json:"objects"`
	Bytes   uint64 `json:"bytes"`
	// RetainedBytes is the memory that would be freed if these objects were garbage.
	RetainedBytes uint64 `json:"retained_bytes"`
	// Unreached is the number of objects to which no path was found: they are garbage, or held by something that was
	// not read.
	Unreached      int        `json:"unreached"`
	UnreachedBytes uint64     `json:"unreached_bytes"`
	Paths          []HeapPath `json:"paths"`
	// MorePaths is the number of paths that are not in Paths.
	MorePaths int `json:"more_paths"`
}

// HeapPath is one path of references from a root to some of the objects.
type HeapPath struct {
	// Path is the whole path as one line.
	Path  string     `json:"path"`
	Root  string     `json:"root"`
	Steps []HeapStep `json:"steps"`
	// Cut means that steps in the middle of the path are left out.
	Cut           bool   `json:"cut"`
	Objects       int    `json:"objects"`
	Bytes         uint64 `json:"bytes"`
	RetainedBytes uint64 `json:"retained_bytes"`
	// HolderRetainedBytes is the memory that would be freed if the first object of the path were garbage.
	HolderRetainedBytes uint64 `json:"holder_retained_bytes"`
}

// HeapStep is an object on a path.
type HeapStep struct {
	Class string `json:"class"`
	// In is the constant or variable that refers to the object. It is null if the object is an element of another one.
	In *string `json:"in"`
	// Repeated means that several objects of this kind follow each other on the path. They are one step.
	Repeated bool `json:"repeated"`
}

// HeapBiggest lists the largest objects.
type HeapBiggest struct {
	Strings []HeapBig `json:"strings"`
	Arrays  []HeapBig `json:"arrays"`
	Hashes  []HeapBig `json:"hashes"`
	// Copies are Strings with the same bytes as other Strings.
	Copies HeapCopies `json:"copies"`
}

// HeapBig is one large object, or the first of several equal Strings.
type HeapBig struct {
	Class   string `json:"class"`
	Address string `json:"address"`
	Bytes   uint64 `json:"bytes"`
	// Length is in bytes for a String, and in elements for other objects.
	Length        uint64 `json:"length"`
	RetainedBytes uint64 `json:"retained_bytes"`
	// Path is a path of references to the object. It is null if there is none from a root.
	Path *string `json:"path"`
	// Objects is the number of equal Strings. WastedBytes is the memory of all of them except the largest one. Both
	// keys are missing if the entry is a single object.
	Objects     int    `json:"objects,omitempty"`
	WastedBytes uint64 `json:"wasted_bytes,omitempty"`
}

// HeapCopies counts the Strings that have the same bytes as another String.
type HeapCopies struct {
	// Compared is the number of Strings that were compared. A String is left out if it has more than 4 KiB, or shares
	// its bytes with another String. Different is how many different contents the compared Strings have.
	Compared    int       `json:"compared"`
	Different   int       `json:"different"`
	WastedBytes uint64    `json:"wasted_bytes"`
	Groups      []HeapBig `json:"groups"`
}
