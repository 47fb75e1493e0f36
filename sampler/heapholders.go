package sampler

// Default limits of a copy of the heap with its references: the number of objects, and their bytes.
const (
	DefaultHolderObjects = 2_000_000
	DefaultHolderBytes   = 500_000_000
)

// HolderOptions say what a copy of the heap with its references contains.
type HolderOptions struct {
	// MaxObjects and MaxBytes bound what is copied. A larger heap is an error.
	MaxObjects, MaxBytes uint64
	// Contents asks to compare the bytes of Strings, so that equal Strings are found. The bytes are not kept.
	Contents bool
	// Values asks for the first bytes of the largest Strings and of equal Strings, in Graph.Values. It needs Contents.
	// Package live sets it from its Options.
	Values bool
	// Facts asks to fill Graph.Facts, which only a file of the heap needs.
	Facts bool
	// ThreadName returns what may be shown of a thread's name. Nil shows all.
	ThreadName func(name string) string
	// Hurry reports whether the rest is to be copied at once, whatever it costs. It may be nil.
	Hurry func() bool
	// Progress is called now and then. It may be nil.
	Progress func(stage string, done, total int)
}

// HolderInfo says how the heap was copied.
type HolderInfo struct {
	BeganNS, EndedNS, CPUNS int64
	// Objects and References are how many were found. Bytes is how much memory was read.
	Objects, References, Bytes uint64
	// Skipped is how many pages changed during the copy. Unread is how many other pieces of memory could not be read.
	Skipped, Unread int
	// Cut is true if the heap has more pages than were copied. Compacted is true if objects moved during the copy, so
	// much can be wrong. Repeated is how many copies were thrown away because objects moved.
	Cut, Compacted bool
	Repeated       int
	// Pause is the stop in which the memory was copied. It is nil if the target ran on.
	Pause *HeapPause
}

// HeapPause is a stop of the target in which all of its writable memory was copied.
type HeapPause struct {
	// BeganNS and EndedNS are the times of the stop, CLOCK_MONOTONIC in ns. NS is how long threads stood still.
	BeganNS, EndedNS, NS int64
	// Bytes is how much memory was copied.
	Bytes uint64
}
