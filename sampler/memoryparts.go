package sampler

// These are the kinds of memory of a process. Each resident byte belongs to one of them.
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
	// RSS is the resident memory. PSS is like RSS, but memory that several processes share counts only in part,
	// divided by their number. Private counts only memory that is not shared. Swap is the memory that was swapped out.
	// All are in bytes.
	RSS, PSS, Private, Swap uint64
	// Parts add up to RSS. The largest comes first.
	Parts  []MemoryPart
	Malloc MallocMemory
	// Copied compares the process with its parent. It is nil if the process was not forked by a process that still
	// lives, or if that cannot be read.
	Copied *CopiedMemory
	// Asked is a sentence about the code that asked the kernel for most of the memory that stays. If this code is not
	// known, the sentence says why. It is empty if requests for memory were not followed.
	Asked string
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
	// Arenas counts glibc's arenas: [heap] and the areas of 64 MiB.
	Arenas int
	// Bytes is the resident memory of the arenas. Free is the part of it that is in free blocks. Blocks that malloc
	// keeps in its caches for quick reuse count as used. Free is nil if it is not known for all arenas.
	Bytes uint64
	Free  *uint64
}

// CopiedMemory compares a forked process with its parent.
type CopiedMemory struct {
	Parent int
	// Inherited is resident memory in private mappings that the parent has, too. Shared is the part of it that is
	// still shared with other processes. Copied is the part that parent and child both have a copy of, because one of
	// them wrote to it since the fork. Copied is an upper bound. All are in bytes.
	Inherited, Shared, Copied uint64
}
