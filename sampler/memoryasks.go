package sampler

// MemoryAsks are the calls by which a process requested memory from the kernel, such as mmap(2). They are recorded
// while the memory outside Ruby's heap grows.
type MemoryAsks struct {
	// SinceNS and UntilNS bound the time in which calls were counted, CLOCK_MONOTONIC in ns.
	SinceNS, UntilNS int64
	// Calls counts all calls, and Bytes is the memory they asked for.
	Calls, Bytes uint64
	// Copied counts the calls whose stacks are in Stacks. Other calls are missing there, because their stacks could not
	// be read, or because too many calls came at once.
	Copied uint64
	// Sure is false if the process may have given memory back to the kernel without ddtop's notice. In this case
	// MemoryAsk.Held is too high.
	Sure bool
	// Stacks is sorted by the memory that each stack requested and that is still mapped, the largest first.
	Stacks []MemoryAsk
}

// MemoryAsk is a stack of code that requested memory from the kernel. Bytes is all memory that it requested. Held is
// the part of Bytes that is still mapped, because the process has not given it back.
type MemoryAsk struct {
	Stack              StackID
	Calls, Bytes, Held uint64
}
