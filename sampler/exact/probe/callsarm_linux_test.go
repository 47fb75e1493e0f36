package probe

import (
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// These functions return instructions of aarch64 with the given operands.
func armBL(from, to uint64) uint32   { return 0x94000000 | uint32(to-from)>>2&0x3ffffff }
func armB(from, to uint64) uint32    { return 0x14000000 | uint32(to-from)>>2&0x3ffffff }
func armBEq(from, to uint64) uint32  { return 0x54000000 | uint32(to-from)>>2&0x7ffff<<5 }
func armCBNZ(from, to uint64) uint32 { return 0xb5000000 | uint32(to-from)>>2&0x7ffff<<5 }
func armTBZ(from, to uint64) uint32  { return 0x36000000 | uint32(to-from)>>2&0x3fff<<5 }
func armADRP(from, to uint64, reg uint32) uint32 {
	pages := uint32(int64(to&^0xfff-from&^0xfff) >> 12)
	return 0x90000000 | pages&3<<29 | pages>>2&0x7ffff<<5 | reg
}
func armLDR(to uint64, base, reg uint32) uint32 {
	return 0xf9400000 | uint32(to&0xfff)/8<<10 | base<<5 | reg
}

// TestJumpsARM: code can call a function of another file in several ways, forwards and backwards. callsIn finds the
// calls in all ways that compilers and linkers use.
func TestJumpsARM(t *testing.T) {
	const text, after, plt, slot, slot1 = 0x1000, 0x100000, 0x40000, 0x5ff8, 0x7f010
	stub := func(at, slot uint64) []uint32 {
		return []uint32{armADRP(at, slot, 16), armLDR(slot, 16, 17), 0x91000210, armBranchX16}
	}
	linkers := attach.CodeSection{Addr: plt, Linkers: true, Bytes: words(slices.Concat(stub(plt, slot), []uint32{armBTI}, stub(plt+20, slot1), stub(plt+36, 0x7f018))...)}
	own := []attach.CodeSection{{Addr: text}, {Addr: after}}
	var want [2][]uint64
	next := func(c *attach.CodeSection) uint64 { return c.Addr + uint64(len(c.Bytes)) }
	for i := range own {
		c := &own[i]
		for fn, to := range []uint64{plt, plt + 16} {
			for _, branch := range []func(from, to uint64) uint32{armBL, armB, armBEq, armCBNZ} {
				want[fn] = append(want[fn], next(c))
				c.Bytes = append(c.Bytes, words(branch(next(c), to))...)
			}
		}
		want[1] = append(want[1], next(c))
		// the call skips the bti instruction at the beginning of the stub
		c.Bytes = append(c.Bytes, words(armBL(next(c), plt+20))...)
		for fn, to := range []uint64{slot, slot1} {
			c.Bytes = append(c.Bytes, words(armADRP(next(c), to, 3), armFrame)...)
			want[fn] = append(want[fn], next(c))
			c.Bytes = append(c.Bytes, words(armLDR(to, 3, 9), armLDR(to+8, 3, 9), armLDR(to, 4, 9), armBL(next(c), plt+36), armReturn, armBrk)...)
		}
	}
	got, err := callsInARM([]attach.CodeSection{own[0], linkers, own[1]}, map[uint64]int{slot: 0, slot1: 1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for fn := range want {
		slices.Sort(got[fn])
		slices.Sort(want[fn])
		if !slices.Equal(got[fn], want[fn]) {
			t.Errorf("function %d: %#x, want %#x", fn, got[fn], want[fn])
		}
	}
	near := attach.CodeSection{Addr: plt - 0x7000, Bytes: words(armTBZ(plt-0x7000, plt))}
	if got, err := callsInARM([]attach.CodeSection{near, linkers}, map[uint64]int{slot: 0}, 1); err != nil || !slices.Equal(got[0], []uint64{near.Addr}) {
		t.Errorf("tbz: %#x, %v", got, err)
	}
}
