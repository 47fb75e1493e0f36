package sampler

// MaxFibers bounds the fibers of a Fibers.
const MaxFibers = 20_000

// FiberNumber identifies a followed fiber of a process. Numbers begin with 1 and are not reused.
type FiberNumber uint32

// Fiber is a fiber that does not run now: its thread does not run it, and it has not resumed the running one.
type Fiber struct {
	// Number is the fiber's while it is followed from sample to sample; 0 in a dump.
	Number FiberNumber
	Thread ThreadID
	// Stack is where the fiber gave the thread up. It is zero if this stack could not be read, or if the fiber was
	// never resumed.
	Stack StackID
	// Created: it was never resumed yet.
	Created bool
	// AtNS is when it was read, CLOCK_MONOTONIC in ns. It is zero in a dump.
	AtNS int64
	// Serving is what the fiber waits for, as its own frames show. In a followed process, each request or job counts
	// for one fiber or thread only. The fiber of an Enumerator has no Work, and neither has a helper that is given the
	// request.
	Serving Serving
}

// Fibers are the suspended fibers of a process. A dump has them in the order of their addresses, a sample in the order
// of their numbers.
type Fibers struct {
	List []Fiber
	// Cut is true if there may be other fibers. Then the heap is larger than the searched part, there are more fibers
	// than the limit, or some known fibers could not be read.
	Cut bool
	// AtNS is the time to which the requests in Serving belong. In a sample it is the time when the first fiber was
	// read. It is CLOCK_MONOTONIC in ns.
	AtNS int64
	// ReadNS is how long it took to find or read all of them, in ns. They are not of one instant.
	ReadNS int64
}
