package probe

import (
	"encoding/binary"

	"github.com/ddtop/ddtop/attach"
)

// callsInARM is like callsIn, but for aarch64. A call goes to a stub of the linker, or loads the slot, which is the
// word with the function's address. In both cases, an adrp instruction and an offset in the page form the slot's
// address.
//
// callsInARM combines a load with the last earlier adrp of the same register, even if other instructions are in
// between. So it may find false calls, which do less harm than missed ones. A stub begins with the adrp before the
// load, or with a bti before the adrp.
func callsInARM(code []attach.CodeSection, slots map[uint64]int, functions int) ([][]uint64, error) {
	return findCalls(code, slots, functions, loadsARM, jumpsARM, 4, 8)
}

// loadsARM finds the pairs of adrp and ldr that load a slot into a register.
func loadsARM(c *attach.CodeSection, slots map[uint64]int, found func(at uint64, fn int)) {
	var pages [32]uint64 // the result of the last adrp of each register
	for i := 0; i+4 <= len(c.Bytes); i += 4 {
		word, at := binary.LittleEndian.Uint32(c.Bytes[i:]), c.Addr+uint64(i)
		switch {
		case word&0x9f000000 == 0x90000000: // adrp
			pages[word&31] = at&^0xfff + uint64(signed(word>>5&0x7ffff<<2|word>>29&3, 21))<<12
		case word&0xffc00000 == 0xf9400000: // ldr of 8 bytes, at an offset that is a multiple of 8
			if page := pages[word>>5&31]; page != 0 {
				if fn, ok := slots[page+uint64(word>>10&0xfff)*8]; ok {
					found(at, fn)
				}
			}
		}
	}
}

// jumpsARM finds the calls, jumps and conditional jumps to a stub.
func jumpsARM(c *attach.CodeSection, stubs map[uint64]int, found func(at uint64, fn int)) {
	for i := 0; i+4 <= len(c.Bytes); i += 4 {
		word, at := binary.LittleEndian.Uint32(c.Bytes[i:]), c.Addr+uint64(i)
		var words int64 // the distance of the branch, in words
		switch {
		case isBranch(word):
			words = signed(word&0x3ffffff, 26)
		case isConditional(word), isCompare(word):
			words = signed(word>>5&0x7ffff, 19)
		case isTest(word):
			words = signed(word>>5&0x3fff, 14)
		default:
			continue
		}
		if fn, ok := stubs[at+uint64(words*4)]; ok {
			found(at, fn)
		}
	}
}

// signed interprets the lowest n bits as a signed number.
func signed(bits uint32, n int) int64 { return int64(bits) << (64 - n) >> (64 - n) }
