// Package ownword finds where native threads keep a word of their own in thread-local storage, such as a pointer to the
// thread's data. The place is an offset that is the same for all threads of a process. The package works for glibc and
// musl, on x86-64 and aarch64.
package ownword

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// belowPointer and abovePointer limit the search for the word in a thread's storage: how many bytes below and above
	// the thread pointer are searched. The word is the pointer to the Ruby thread or to its execution context
	// (docs/internals/context.md#thread-local-variables). On aarch64 all thread-local storage is above the thread
	// pointer, and aboveOnARM is the limit.
	belowPointer, abovePointer, aboveOnARM = 4096, 0x600, 4096
	// selfOfGlibc and selfOfMusl are offsets in the C library's block for a thread, on x86-64. At this offset, the
	// block has its own address (tcbhead_t.self at 16 in glibc, struct pthread at 0 in musl).
	selfOfGlibc, selfOfMusl = 16, 0
	// MaxThreads is how many threads a caller of Find should pass at most.
	MaxThreads = 64
	// maxBlock limits the size of a C library's thread block on aarch64, in bytes. (glibc's struct pthread has about
	// 1,800.) maxBlocks limits how many threads are searched to find this size.
	maxBlock, maxBlocks = 8192, 8
	// maxVector limits the number of modules with thread-local variables. maxFirst limits the distance in bytes
	// between the thread pointer and the variables of the first module.
	maxVector, maxFirst = 1 << 16, 4096
)

// A Word is a native thread, with the word that it keeps in its thread-local storage.
type Word struct {
	// Thread is the pthread_t, which is the address of the C library's block for the thread.
	Thread attach.Address
	Word   uint64
	// Main is true for the main thread, whose stack is in another place than the stacks of other threads.
	Main bool
}

// storage reads the thread-local storage of a process.
type storage struct{ mem attach.Memory }

// Find returns the distance in bytes from the thread pointer to the word that each native thread keeps. looked is the
// number of threads whose word was found somewhere in their storage. machine is the name of a machine as in layout
// tables. specific is true if the word is a value of pthread_getspecific and not a thread-local variable. In this case
// the word is in the C library's block for the thread.
func Find(mem attach.Memory, machine string, threads []Word, specific bool) (at int64, looked int, ok bool) {
	r := storage{mem}
	pointer, from, to := int64(0), int64(-belowPointer), int64(abovePointer)
	isThread := func(thread attach.Address) bool {
		return r.wordAt(thread+selfOfGlibc) == uint64(thread) || r.isMusl(thread)
	}
	if specific {
		from = 0
	}
	if machine == "aarch64" {
		size, found := BlockSize(mem, threads)
		if !found {
			return 0, 0, false
		}
		pointer, from, to = size, 0, aboveOnARM
		isThread = func(thread attach.Address) bool { return r.endsBlock(thread, size) }
		if specific {
			from, to = -size, 0
		}
	}
	found := make(votes)
	var mains votes // votes of the main thread, which must have each thread-local variable
	for _, t := range threads {
		own := make(votes)
		if isThread(t.Thread) {
			own.add(r.mem, t.Thread+attach.Address(pointer), t.Word, from, to)
		}
		if len(own) == 0 {
			continue // a new thread that does not have its word yet
		}
		looked++
		for at := range own {
			found[at]++
		}
		if t.Main {
			mains = own
		}
	}
	least := max((looked+1)/2, 1)
	if mains != nil {
		least = 1 // the main thread's vote is enough, because the other threads may have just begun
		for at := range found {
			if mains[at] == 0 {
				delete(found, at)
			}
		}
	}
	at, ok = found.winner(least)
	return at, looked, ok
}

// votes counts threads by distance. The key is a distance from the thread pointer, in bytes. The value is the number of
// threads that have their word at this distance.
type votes map[int64]int

// winner returns the distance at which most threads have their word. If several distances have the same number of
// threads, it returns the distance nearest to the thread pointer. Words at other distances can be copies of the word,
// on the stack of the thread that started the thread. ok is false if fewer than least threads have their word at the
// winning distance.
func (v votes) winner(least int) (at int64, ok bool) {
	best := 0
	for to, n := range v {
		if n > best || n == best && max(to, -to) < max(at, -at) {
			best, at = n, to
		}
	}
	return at, best >= least
}

// add searches the memory around the address pointer for the value word, at distances between from and to. It counts
// each distance at which it finds word.
func (v votes) add(mem attach.Memory, pointer attach.Address, word uint64, from, to int64) {
	low, storage := readAround(mem, pointer, from, to)
	for at := 0; at+8 <= len(storage); at += 8 {
		if view.U64(storage[at:]) == word {
			v[low+int64(at)]++
		}
	}
}

// readAround reads the memory around pointer, up to the first gap on each side. from (0 or less) and to (0 or more)
// limit the distance from pointer. Memory above a thread's block, or far below it, may be unmapped. low is the distance
// from pointer at which the result begins.
func readAround(mem attach.Memory, pointer attach.Address, from, to int64) (low int64, read []byte) {
	buf := make([]byte, to-from)
	if mem.Read(pointer+attach.Address(from), buf) == nil {
		return from, buf
	}
	const page = 4096 // mappings begin and end at multiples of 4 KiB on every machine
	high := int64(0)
	for high < to {
		at := pointer + attach.Address(high)
		n := min(page-int64(at%page), to-high)
		if mem.Read(at, buf[high-from:][:n]) != nil {
			break
		}
		high += n
	}
	for low > from {
		at := pointer + attach.Address(low)
		n := min(int64((at-1)%page)+1, low-from)
		if mem.Read(at-attach.Address(n), buf[low-n-from:][:n]) != nil {
			break
		}
		low -= n
	}
	return low, buf[low-from : high-from]
}

// isMusl reports whether the block of a thread begins with its own address, as in musl. In glibc on aarch64, a block
// never begins with its own address.
func (r storage) isMusl(thread attach.Address) bool {
	return r.wordAt(thread+selfOfMusl) == uint64(thread)
}

// BlockSize finds the size of the C library's thread blocks on aarch64, where the thread pointer is the end of the
// block. It tries one size after another. A size is right for a thread if the word at the end of the block refers to
// the thread's vector of modules (isVector).
func BlockSize(mem attach.Memory, threads []Word) (size int64, ok bool) {
	r := storage{mem}
	found := make(votes)
	threads = threads[:min(len(threads), maxBlocks)]
	for _, t := range threads {
		_, block := readAround(r.mem, t.Thread, 0, maxBlock)
		musl := len(block) >= 8 && view.U64(block) == uint64(t.Thread)
		for size := 16; size+8 <= len(block); size += 8 {
			word := size
			if musl {
				word -= 8
			}
			if r.isVector(attach.Address(view.U64(block[word:])), t.Thread+attach.Address(size), musl) {
				found[int64(size)]++
			}
		}
	}
	return found.winner(max((len(threads)+1)/2, 1))
}

// endsBlock reports whether a thread's block has size bytes. The thread pointer is then the end of the block.
func (r storage) endsBlock(thread attach.Address, size int64) bool {
	pointer, musl := thread+attach.Address(size), r.isMusl(thread)
	at := pointer
	if musl {
		at -= 8
	}
	return r.isVector(attach.Address(r.wordAt(at)), pointer, musl)
}

// isVector reports whether vector is the address of a thread's vector of modules, on aarch64. This vector says where
// the thread has each module's thread-local variables.
//
// glibc's vector has the number of modules (two words before vector), the generation, and two words for each module.
// The first of these two words is the address of the module's variables. musl's vector has the number of modules, and
// one word for each module. The variables of the first module begin 16 bytes above the thread pointer, or later because
// of alignment.
func (r storage) isVector(vector, pointer attach.Address, musl bool) bool {
	if vector < 4096 || vector%8 != 0 {
		return false
	}
	count, first := 0, 4
	if musl {
		first = 1
	} else {
		vector -= 16
	}
	var b [40]byte
	words := b[:8*(first+1)]
	if r.mem.Read(vector, words) != nil {
		return false
	}
	n, at := view.U64(words[8*count:]), attach.Address(view.U64(words[8*first:]))
	return n > 0 && n <= maxVector && (musl || view.U64(words[16:]) < 1<<32) && at >= pointer+16 && at < pointer+16+maxFirst
}

// wordAt returns the word at an address, or zero if it cannot be read.
func (r storage) wordAt(at attach.Address) uint64 {
	var b [8]byte
	if r.mem.Read(at, b[:]) != nil {
		return 0
	}
	return view.U64(b[:])
}
