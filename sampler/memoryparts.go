package sampler

// Kinds of memory of a process. Each resident byte belongs to one of them.
const (
	MemoryRuby   = "Ruby's heap pages"
	MemoryMalloc = "malloc arenas"
	MemoryCode   = "compiled code" // anonymous memory that can be executed
	MemoryStacks = "thread stacks"
	MemoryFiles  = "files"
	MemoryShared = "shared memory"
	MemoryOther  = "other anonymous memory"
)

// MemoryParts is what the memory of a process consists of, in bytes.
type MemoryParts struct {
	// RSS is the resident memory. PSS has only the process's part of memory that it shares with others, Private only
	// memory that it does not share. Swap is what was swapped out.
	RSS, PSS, Private, Swap uint64
	// Parts add up to RSS. The largest comes first.
	Parts  []MemoryPart
	Malloc MallocMemory
	// Copied is nil if the process was not forked by a process that still lives, or if that cannot be read.
	Copied *CopiedMemory
}

// MemoryPart is the resident memory of one kind.
type MemoryPart struct {
	Kind  string
	Bytes uint64
}

// MallocMemory is the memory that malloc manages in its arenas. Blocks of 128 KiB and more may be outside them.
type MallocMemory struct {
	// Allocator is "glibc", or the name of another library for malloc. It is empty if none is known.
	Allocator string
	// Arenas counts [heap] and the areas of 64 MiB of glibc.
	Arenas int
	// Bytes are resident in them, Free of these are in free blocks. Blocks in malloc's caches for quick
	// reuse count as used. Free is nil if it is not known of all arenas.
	Bytes uint64
	Free  *uint64
}

// CopiedMemory compares a forked process with its parent.
type CopiedMemory struct {
	Parent int
	// Inherited is resident memory in private mappings that the parent has, too. Shared of it is still shared with
	// other processes. Copied is at most so much as both have for themselves: what one of them wrote to since the fork.
	Inherited, Shared, Copied uint64
}
