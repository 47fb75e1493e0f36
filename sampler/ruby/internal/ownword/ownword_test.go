package ownword

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// words is a memory of 8-byte words. As in a process, a read fails as a whole if a part of its range is missing.
type words map[attach.Address]uint64

func (m words) Read(a attach.Address, buf []byte) error {
	for off := 0; off < len(buf); off += 8 {
		w, ok := m[a+attach.Address(off)]
		if !ok {
			return &attach.ReadError{Addr: a, Want: len(buf), Err: attach.ErrUnmapped}
		}
		binary.LittleEndian.PutUint64(buf[off:], w)
	}
	return nil
}

func (m words) ReadBatch([]attach.Range) (int, error) { panic("words are read one by one") }

// made is an invented memory with native threads, for one machine and one C library. The blocks of the threads are far
// from each other. Each test puts the threads' words into the memory.
type made struct {
	m       words
	machine string
	musl    bool
	// size is the size of a block. On aarch64 the thread pointer is behind the block. spread is the distance between
	// blocks.
	size, spread attach.Address
}

// block makes the block of the n-th thread, and returns the block's address and the thread pointer. below and above are
// how many bytes below and above the thread pointer can be read.
func (s *made) block(n int, below, above attach.Address) (thread, pointer attach.Address) {
	thread = 0x7f0000100d00 + attach.Address(n)*s.spread
	pointer = thread
	if s.machine == "aarch64" {
		pointer += s.size
	}
	for at := (pointer - below) &^ 0xfff; at < pointer+above || at%0x1000 != 0; at += 8 { // whole pages
		s.m[at] = 0x1111
	}
	vector := thread - s.spread/2
	s.m[vector+24] = 0
	switch {
	case s.machine == "x86_64" && s.musl:
		s.m[thread] = uint64(thread)
	case s.machine == "x86_64":
		s.m[thread+16] = uint64(thread)
	case s.musl:
		s.m[thread], s.m[pointer-8] = uint64(thread), uint64(vector)
		s.m[vector], s.m[vector+8] = 3, uint64(pointer+16)
	default:
		s.m[pointer] = uint64(vector)
		s.m[vector-16], s.m[vector-8], s.m[vector], s.m[vector+8], s.m[vector+16] = 17, 0, 2, 0, uint64(pointer+32)
	}
	return thread, pointer
}

// TestOwnWord searches for the threads' word on both machines and with both C libraries. Find must return the word's
// distance, although the word is also in another place, and one thread has not set its word yet.
func TestOwnWord(t *testing.T) {
	for name, c := range map[string]struct {
		machine      string
		musl         bool
		size         attach.Address
		specific     bool
		at           int64
		below, above attach.Address
	}{
		"x86_64, glibc":            {"x86_64", false, 0, false, -80, 4096, 0x600},
		"x86_64, musl":             {"x86_64", true, 0, false, -8, 4096, 0x600},
		"x86_64, 2.7":              {"x86_64", false, 0, true, 792, 4096, 0x600},
		"x86_64, little to read":   {"x86_64", false, 0, false, -8, 256, 64},
		"aarch64, glibc":           {"aarch64", false, 1792, false, 24, 4096, 4096},
		"aarch64, its last word":   {"aarch64", false, 2240, false, 4088, 4096, 4096},
		"aarch64, little to read":  {"aarch64", false, 1920, false, 24, 1920, 64},
		"aarch64, 2.7":             {"aarch64", false, 1792, true, -1512, 1792, 64},
		"aarch64, musl":            {"aarch64", true, 200, false, 40, 200, 128},
		"aarch64, musl and 2.7":    {"aarch64", true, 200, true, -40, 200, 128},
		"aarch64, a huge block":    {"aarch64", false, 8176, false, 24, 8176, 64},
		"x86_64, the last word up": {"x86_64", false, 0, true, 0x5f8, 0, 0x600},
	} {
		t.Run(name, func(t *testing.T) {
			s := made{m: words{}, machine: c.machine, musl: c.musl, size: c.size, spread: 0x10000}
			var threads []Word
			for n := range 5 {
				thread, pointer := s.block(n, c.below, c.above)
				own := Word{Thread: thread, Word: 0x550000000000 + uint64(n)*64, Main: n == 0}
				if n != 3 { // this thread has just begun
					s.m[pointer+attach.Address(c.at)] = own.Word
				}
				if n > 0 { // another copy of the word, as on the thread's stack
					s.m[pointer-attach.Address(min(c.below, 96))] = own.Word
				}
				threads = append(threads, own)
			}
			at, looked, ok := Find(s.m, s.machine, threads, c.specific)
			if !ok || at != c.at || looked < 4 {
				t.Errorf("%d, of %d threads, %t; want %d", at, looked, ok, c.at)
			}
		})
	}
}

// TestOwnWordUnknown passes one of these: an address that belongs to no thread, an empty list of threads, or a word
// that is nowhere in memory. Find must then return no distance.
func TestOwnWordUnknown(t *testing.T) {
	for name, machine := range map[string]string{"x86_64": "x86_64", "aarch64": "aarch64"} {
		s := made{m: words{}, machine: machine, size: 1792, spread: 0x10000}
		thread, pointer := s.block(0, 4096, 4096)
		s.m[pointer+24] = 0x5500
		if at, _, ok := Find(s.m, machine, []Word{{Thread: thread + 0x8000, Word: 0x5500, Main: true}}, false); ok {
			t.Errorf("%s: %d for what is no thread", name, at)
		}
		if at, _, ok := Find(s.m, machine, nil, false); ok {
			t.Errorf("%s: %d without threads", name, at)
		}
		if at, _, ok := Find(s.m, machine, []Word{{Thread: thread, Word: 0x6600, Main: true}}, false); ok {
			t.Errorf("%s: %d for a word that is nowhere", name, at)
		}
	}
}

// TestVectors checks which words isVector accepts as a thread's vector on aarch64.
func TestVectors(t *testing.T) {
	const vector, pointer = 0x7f0000001000, 0x7f0000200700
	glibc := func(count, generation, first uint64) words {
		return words{vector - 16: count, vector - 8: 0, vector: generation, vector + 8: 0, vector + 16: first}
	}
	for name, c := range map[string]struct {
		m    words
		musl bool
		want bool
	}{
		"glibc":                 {glibc(16, 1, pointer+16), false, true},
		"glibc, aligned to 64":  {glibc(16, 0, pointer+64), false, true},
		"no modules":            {glibc(0, 1, pointer+16), false, false},
		"a pointer as number":   {glibc(vector, 1, pointer+16), false, false},
		"an odd generation":     {glibc(16, vector, pointer+16), false, false},
		"not used by it":        {glibc(16, 1, ^uint64(0)), false, false},
		"of another thread":     {glibc(16, 1, pointer+0x10000), false, false},
		"before the pointer":    {glibc(16, 1, pointer), false, false},
		"not there":             {words{}, false, false},
		"musl":                  {words{vector: 2, vector + 8: pointer + 16}, true, true},
		"musl, of another":      {words{vector: 2, vector + 8: pointer - 16}, true, false},
		"musl, without modules": {words{vector: 0, vector + 8: pointer + 16}, true, false},
	} {
		if got := (storage{c.m}).isVector(vector, pointer, c.musl); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
