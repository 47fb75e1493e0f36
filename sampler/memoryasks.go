package sampler

// MemoryAsks are the calls by which a process asked the kernel for memory. They are recorded while the memory outside
// Ruby's heap grows.
type MemoryAsks struct {
	// SinceNS and UntilNS are the time in which calls were counted, CLOCK_MONOTONIC in ns.
	SinceNS, UntilNS int64
	// Calls counts all calls, and Bytes is the memory they asked for.
	Calls, Bytes uint64
	// Copied counts the calls whose stacks are in Stacks. The stacks of the other calls could not be read, or the calls
	// came too fast.
	Copied uint64
	// Sure is false if the process may have given memory back without ddtop noticing it. In this case MemoryAsk.Held is
	// too high.
	Sure bool
	// Stacks is sorted by the memory that each stack asked for and that is still mapped, the most first.
	Stacks []MemoryAsk
}

// MemoryAsk is a stack of code that asked the kernel for memory. Held is the part of Bytes that the process has not
// given back: it is still mapped.
type MemoryAsk struct {
	Stack              StackID
	Calls, Bytes, Held uint64
}
