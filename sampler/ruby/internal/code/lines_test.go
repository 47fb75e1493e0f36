package code

import (
	"encoding/binary"
	"math/rand"
	"slices"
	"sort"
	"testing"
)

// buildIndex makes the succinct index of entries at these positions, as Ruby's compile.c does. The iseq has size words.
func buildIndex(positions []uint32, size uint32) (immediate []uint64, blocks []byte) {
	rank := func(pos uint32) uint64 {
		return uint64(sort.Search(len(positions), func(i int) bool { return positions[i] > pos }))
	}
	immediate = make([]uint64, min(succImmediateWords, (size+8)/9))
	for pos := uint32(0); pos < min(size, succImmediate); pos++ {
		immediate[pos/9] |= rank(pos) << (7 * (pos % 9))
	}
	if size < succImmediate {
		return immediate, nil
	}
	for start := uint32(succImmediate); start < size; start += succBlockBits {
		b := make([]byte, succBlockSize)
		base := rank(start - 1)
		binary.LittleEndian.PutUint32(b, uint32(base))
		small := uint64(0)
		for k := uint32(1); k < 8; k++ {
			small |= (rank(start+64*k-1) - base) << (9 * (k - 1))
		}
		binary.LittleEndian.PutUint64(b[8:], small)
		for _, p := range positions {
			if p >= start && p < start+succBlockBits {
				b[16+(p-start)/8] |= 1 << ((p - start) % 8)
			}
		}
		blocks = append(blocks, b...)
	}
	return immediate, blocks
}

// TestLines finds the line of each position in three ways: with the succinct index, with the plain index of 2.5, and
// with a walk over the positions. All must find the same lines.
func TestLines(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for range 300 {
		size := uint32(1 + rng.Intn(2000))
		positions := []uint32{0}
		for p := uint32(1); p < size; p++ {
			if rng.Intn(1+rng.Intn(9)) == 0 && len(positions) < 120+int(size)/3 {
				positions = append(positions, p)
			}
		}
		// The ranks of the first 54 positions have only 7 bits, so the test makes only as many entries as these bits
		// can count.
		lines := make([]int32, len(positions))
		for i := range lines {
			lines[i] = rng.Int31() - 1<<30
		}
		succinct := lineTable{lines: lines}
		succinct.immediate, succinct.blocks = buildIndex(positions, size)
		plain := lineTable{lines: lines, positions: positions}
		for pos := range size {
			i := sort.Search(len(positions), func(i int) bool { return positions[i] > pos }) - 1
			if got := succinct.line(pos); got != lines[i] {
				t.Fatalf("size %d, position %d: got line %d, want %d (entry %d of %d)", size, pos, got, lines[i], i, len(lines))
			}
			if got := plain.line(pos); got != lines[i] {
				t.Fatalf("plain: position %d: got line %d, want %d", pos, got, lines[i])
			}
		}
		// A position past the end of the code gets any line of the table. It must not cause a panic.
		for _, pos := range []uint32{size, size + 9, size + 600, 1 << 20} {
			if !slices.Contains(lines, succinct.line(pos)) {
				t.Fatalf("position %d of %d has a line of no entry", pos, size)
			}
		}
	}
	if got := new(lineTable).line(3); got != 0 {
		t.Errorf("an empty table says line %d", got)
	}
}
