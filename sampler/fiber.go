package sampler

// MaxFibers is the largest number of fibers in Fibers.List.
const MaxFibers = 20_000

// FiberNumber identifies a fiber of a process while ddtop follows the process from sample to sample. Numbers begin with
// 1 and are not reused.
type FiberNumber uint32

// Fiber is a suspended fiber. The list does not have the running fibers, nor the fibers that wait because they resumed
// another fiber.
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
	// Serving is the request or job that the fiber works for, as the fiber's own frames show. While ddtop follows a
	// process, it assigns each request or job to only one fiber or thread. So the fiber of an Enumerator has no Work,
	// and neither does a helper fiber to which a request was passed.
	Serving Serving
}

// Fibers are the suspended fibers of a process. A dump lists them in the order of their addresses, and a sample in the
// order of their numbers.
type Fibers struct {
	List []Fiber
	// Cut is true if List may lack fibers. There are three reasons: the heap is larger than the searched part, there
	// are more fibers than the limit, or known fibers could not be read.
	Cut bool
	// AtNS is the instant for which the requests in Serving are right, CLOCK_MONOTONIC in ns. In a sample this is when
	// the first fiber was read.
	AtNS int64
	// ReadNS is how long it took to find or read all fibers, in ns. The fibers are read one after the other during this
	// time, so they do not all show the same instant.
	ReadNS int64
}
