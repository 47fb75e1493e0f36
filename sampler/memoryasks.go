package sampler

// MemoryAsks are the calls by which a process asked the kernel for memory, while memory outside Ruby's heap grew.
type MemoryAsks struct {
	// SinceNS and UntilNS are the time in which calls were counted, CLOCK_MONOTONIC in ns.
	SinceNS, UntilNS int64
	// Calls counts all calls, and Bytes is the memory they asked for.
	Calls, Bytes uint64
	// Copied counts the calls whose stacks are in Stacks. The others came too fast, or their stacks could not be read.
	Copied uint64
	// Sure is false if memory may have been given back without being noticed. Then MemoryAsk.Held is too high.
	Sure bool
	// Stacks begins with the stack that has the most memory that is still mapped.
	Stacks []MemoryAsk
}

// MemoryAsk is a stack that asked the kernel for memory. Held is the part of Bytes that is still mapped.
type MemoryAsk struct {
	Stack              StackID
	Calls, Bytes, Held uint64
}
