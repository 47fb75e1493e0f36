package sampler

// MaxFibers limits Fibers.List.
const MaxFibers = 20_000

// FiberNumber identifies a fiber of a process that ddtop follows from sample to sample. Numbers begin with 1 and are
// not reused.
type FiberNumber uint32

// Fiber is a suspended fiber. The running fibers, and the fibers that have resumed them, are not listed.
type Fiber struct {
	// Number identifies the fiber from sample to sample. It is 0 in a dump.
	Number FiberNumber
	Thread ThreadID
	// Stack is the fiber's stack, as it was when the fiber was suspended. It is zero if it could not be read, or if
	// the fiber was never resumed.
	Stack StackID
	// Created is true if the fiber was never resumed.
	Created bool
	// AtNS is when the fiber was read, CLOCK_MONOTONIC in ns. It is zero in a dump.
	AtNS int64
	// Serving is the request or job that the fiber works for, as its own frames show. While a process is followed, each
	// request or job belongs to one fiber or thread only. So the fiber of an Enumerator has no Work. A helper fiber to
	// which the request is passed has none either.
	Serving Serving
}

// Fibers are the suspended fibers of a process. A dump has them in the order of their addresses, a sample in the order
// of their numbers.
type Fibers struct {
	List []Fiber
	// Cut is true if fibers may be missing from List. The heap is then larger than the searched part, or there are more
	// fibers than the limit. Or some known fibers could not be read.
	Cut bool
	// AtNS is the time for which Serving holds the requests. In a sample it is the time when the first fiber was read.
	// It is CLOCK_MONOTONIC in ns.
	AtNS int64
	// ReadNS is how long it took to find or read all fibers, in ns. The fibers are read one after the other during this
	// time, so they do not all show the same instant.
	ReadNS int64
}
