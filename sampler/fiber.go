package sampler

// Fiber is a fiber that does not run now: neither the one that its thread runs, nor one of those that resumed it.
type Fiber struct {
	Thread ThreadID
	// Stack is where it gave the thread up; 0 when that could not be read, or it was never resumed.
	Stack StackID
	// Created: it was never resumed yet.
	Created bool
	// Serving is for whom and for what it waits, by its own frames.
	Serving Serving
}

// Fibers are the suspended fibers of a process, in the order of their addresses.
type Fibers struct {
	List []Fiber
	// Cut: the heap is larger, or there are more fibers, than what is looked through: there may be others.
	Cut bool
	// AtNS is when the sample was taken that Serving's requests go on in, CLOCK_MONOTONIC in ns.
	AtNS int64
	// ReadNS is how long it took to find them, in ns: they are not of one instant.
	ReadNS int64
}
