// Package ownword finds where native threads keep a word of their own in their thread-local storage. It knows glibc
// and musl, on x86-64 and aarch64.
package ownword

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// belowPointer and abovePointer bound a search in a thread's thread-local storage, in bytes below and above its
	// thread pointer. The search looks for the pointer to the thread or its execution context
	// (docs/internals/context.md#thread-local-variables). On aarch64 all of it is above, up to aboveOnARM.
	belowPointer, abovePointer, aboveOnARM = 4096, 0x600, 4096
	// selfOfGlibc and selfOfMusl are the places of the thread block's own address on x86-64 (glibc's tcbhead_t.self:
	// 16, musl's struct pthread: 0).
	selfOfGlibc, selfOfMusl = 16, 0
	// MaxThreads bounds the threads whose storage is to be searched.
	MaxThreads = 64
	// maxBlock bounds the size of a C library's thread block on aarch64, in bytes (glibc's struct pthread has about
	// 1,800). maxBlocks bounds the threads that are searched for it.
	maxBlock, maxBlocks = 8192, 8
	// maxVector bounds the modules with thread-local variables. maxFirst bounds the distance of the first module's from
	// the thread pointer, in bytes.
	maxVector, maxFirst = 1 << 16, 4096
)

// A Word is a word that a native thread has in its thread-local storage as its own.
type Word struct {
	// Thread is its pthread_t: the address of the C library's block of it.
	Thread attach.Address
	Word   uint64
	// Main is true for the main thread, whose stack is elsewhere.
	Main bool
}

// storage reads the thread-local storage of a process.
type storage struct{ mem attach.Memory }

// Find returns the distance from the thread pointer at which each native thread has its word, in bytes. looked is the
// number of threads with such a word anywhere. machine is the one of layout tables. specific is true if the word is a
// value of pthread_getspecific, in the thread's block, and not a variable.
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
	var mains votes // of the main thread; a variable that the main thread lacks is not thread-local
	for _, t := range threads {
		own := make(votes)
		if isThread(t.Thread) {
			own.add(r.mem, t.Thread+attach.Address(pointer), t.Word, from, to)
		}
		if len(own) == 0 {
			continue // it has just begun, and has it nowhere
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
		least = 1 // the others can just have begun
		for at := range found {
			if mains[at] == 0 {
				delete(found, at)
			}
		}
	}
	at, ok = found.winner(least)
	return at, looked, ok
}

// votes say for how many threads a word was found at a distance from their thread pointer, in bytes.
type votes map[int64]int

// winner returns the distance at which most threads have the word. ok is true if at least least threads do. Of
// several such distances it returns the one nearest to the thread pointer. The stack of the thread that began another
// one has a copy of the word.
func (v votes) winner(least int) (at int64, ok bool) {
	best := 0
	for to, n := range v {
		if n > best || n == best && max(to, -to) < max(at, -at) {
			best, at = n, to
		}
	}
	return at, best >= least
}

// add counts the distances, between from and to, at which a native thread's storage has the word.
func (v votes) add(mem attach.Memory, pointer attach.Address, word uint64, from, to int64) {
	low, storage := readAround(mem, pointer, from, to)
	for at := 0; at+8 <= len(storage); at += 8 {
		if view.U64(storage[at:]) == word {
			v[low+int64(at)]++
		}
	}
}

// readAround reads the memory between two distances from an address, as much as is readable without a gap. Memory
// above a thread's block or far below it may not be mapped. low is the distance at which the result begins. from is 0
// or less, to is 0 or more.
func readAround(mem attach.Memory, pointer attach.Address, from, to int64) (low int64, read []byte) {
	buf := make([]byte, to-from)
	if mem.Read(pointer+attach.Address(from), buf) == nil {
		return from, buf
	}
	const page = 4096 // mappings begin and end at its multiples, also where pages are larger
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

// isMusl reports whether a thread's block begins as musl's does: with its own address. On aarch64 glibc's never does.
func (r storage) isMusl(thread attach.Address) bool {
	return r.wordAt(thread+selfOfMusl) == uint64(thread)
}

// BlockSize finds the size of the C library's thread blocks on aarch64, where the thread pointer is behind the block.
// The thread's vector of modules, which has the address of the first module's variables, identifies it.
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

// endsBlock reports whether a thread's block begins size bytes before its thread pointer.
func (r storage) endsBlock(thread attach.Address, size int64) bool {
	pointer, musl := thread+attach.Address(size), r.isMusl(thread)
	at := pointer
	if musl {
		at -= 8
	}
	return r.isVector(attach.Address(r.wordAt(at)), pointer, musl)
}

// isVector reports whether a thread on aarch64 has its vector of modules at an address. glibc's has their number (two
// words before), the generation, and the addresses of blocks of variables, two words each. musl's has their number, and
// a word each. The variables of the first begin 16 bytes behind the thread pointer, or later if they are aligned.
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

// wordAt returns the word at an address. It is zero if that cannot be read.
func (r storage) wordAt(at attach.Address) uint64 {
	var b [8]byte
	if r.mem.Read(at, b[:]) != nil {
		return 0
	}
	return view.U64(b[:])
}
