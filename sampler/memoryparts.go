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
	// RSS is the resident memory. PSS is similar, but divides the size of each shared page by the number of processes
	// that share it. Private counts only memory that is not shared. Swap is the memory that was swapped out. All are in
	// bytes.
	RSS, PSS, Private, Swap uint64
	// Parts lists the kinds of memory, the largest first. Their sum is RSS.
	Parts  []MemoryPart
	Malloc MallocMemory
	// Copied compares the process with its parent. It is nil if no living process forked this one, or if ddtop cannot
	// read what the comparison needs.
	Copied *CopiedMemory
	// Asked is a sentence about the code that requested most of the memory that is still mapped. If this code is not
	// known, the sentence says why. Asked is empty if ddtop did not follow the requests for memory.
	Asked string
}

// MemoryPart is how much resident memory of one kind the process has.
type MemoryPart struct {
	Kind  string
	Bytes uint64
}

// MallocMemory is the memory that malloc manages in its arenas, the large areas of memory from which malloc takes
// blocks. Blocks of 128 KiB and more may be outside the arenas.
type MallocMemory struct {
	// Allocator is the library that provides malloc: "glibc", or another name. It is empty if the library is not known.
	Allocator string
	// Arenas counts glibc's arenas. These are the mapping [heap] and areas of 64 MiB.
	Arenas int
	// Bytes is the resident memory of the arenas. Free is the part of it that is in free blocks. Blocks that malloc
	// keeps in its caches for quick reuse count as used. Free is nil if it is not known for all arenas.
	Bytes uint64
	Free  *uint64
}

// CopiedMemory compares a forked process with its parent.
type CopiedMemory struct {
	Parent int
	// Inherited is the resident memory in private mappings that the parent has, too. Shared is the part that is still
	// shared with other processes. Copied is the part that exists twice, in parent and child, because one of them wrote
	// to it since the fork. The true value may be lower than Copied. All are in bytes.
	Inherited, Shared, Copied uint64
}
