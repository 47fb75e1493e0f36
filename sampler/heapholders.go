package sampler

// These are the default limits of a copy of the heap with its references: the number of objects, and their bytes.
const (
	DefaultHolderObjects = 2_000_000
	DefaultHolderBytes   = 500_000_000
)

// HolderOptions say what a copy of the heap with its references contains.
type HolderOptions struct {
	// MaxObjects and MaxBytes bound what is copied. If the heap is larger, the copy fails with an error.
	MaxObjects, MaxBytes uint64
	// Contents is true if the bytes of Strings are to be compared, in order to find equal Strings. The bytes are not
	// kept after the comparison.
	Contents bool
	// Values is true if the first bytes of the largest Strings, and of equal Strings, are to be put into Graph.Values.
	// It works only together with Contents. Package live sets it from its Options.
	Values bool
	// Facts is true if Graph.Facts is to be filled. Only a heap dump that is written to a file needs it.
	Facts bool
	// ThreadName returns the part of a thread's name that may be shown. If the function is nil, whole names are shown.
	ThreadName func(name string) string
	// Hurry reports whether ddtop should copy the rest of the memory at once, even if this slows the target down. The
	// function may be nil.
	Hurry func() bool
	// Progress is called from time to time to report how much is done. The function may be nil.
	Progress func(stage string, done, total int)
}

// HolderInfo says how the heap was copied.
type HolderInfo struct {
	BeganNS, EndedNS, CPUNS int64
	// Objects and References are how many objects and references the copy has. Bytes is how much memory was read.
	Objects, References, Bytes uint64
	// Skipped is how many pages changed during the copy. Unread is how many other pieces of memory could not be read.
	Skipped, Unread int
	// Cut is true if the heap has more pages than were copied. Compacted is true if objects moved during the copy, so
	// that many figures can be wrong. Repeated is how many copies were thrown away because objects moved.
	Cut, Compacted bool
	Repeated       int
	// Pause describes the stop of the target during which the memory was copied. It is nil if the target was not
	// stopped.
	Pause *HeapPause
}

// HeapPause is a stop of the target in which all of its writable memory was copied.
type HeapPause struct {
	// BeganNS and EndedNS are the times of the stop, CLOCK_MONOTONIC in ns. NS is how long the target's threads were
	// stopped in all.
	BeganNS, EndedNS, NS int64
	// Bytes is how much memory was copied.
	Bytes uint64
}
