package code

import (
	"fmt"
	"math/bits"
	"sort"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// maxLineEntries limits how many entries the line table of one iseq has.
const maxLineEntries = 1 << 18

// lineTable maps each instruction of an iseq to its line.
type lineTable struct {
	lines []int32
	// positions has the position of the first instruction of each entry, in ascending order. It is nil from 2.6 on.
	positions []uint32
	// immediate and blocks are the succinct index of 2.6 and later, a compact table of bits. For a position in the
	// code, it says how many entries begin at or before this position.
	immediate []uint64
	blocks    []byte
}

// readLines reads an iseq's line table (docs/internals/code.md#lines).
func (d *loader) readLines(body []byte, iseqSize uint32) (lineTable, error) {
	var t lineTable
	at := attach.Address(view.U64(body[d.o.bodyInsns:]))
	n := view.U32(body[d.o.bodyInsnsSize:])
	if n == 0 {
		return t, nil
	}
	if n > maxLineEntries || n > iseqSize {
		return t, fmt.Errorf("a line table of %d entries for %d instruction words", n, iseqSize)
	}
	entries, err := d.view.Bytes(at, int(n)*d.o.entrySize)
	var errIndex error
	if d.o.bodySucc >= 0 && n > 1 {
		errIndex = d.readIndex(&t, attach.Address(view.U64(body[d.o.bodySucc:])), iseqSize)
	}
	if err := view.Worst(err, errIndex); err != nil {
		return t, err
	}
	d.Objects.Note(at, entries, 0)
	t.lines = make([]int32, n)
	for i := range t.lines {
		t.lines[i] = int32(view.U32(entries[i*d.o.entrySize+d.o.entryLine:]))
	}
	if d.o.bodySucc < 0 {
		t.positions = make([]uint32, n)
		for i := range t.positions {
			t.positions[i] = view.U32(entries[i*d.o.entrySize+d.o.entryPosition:])
		}
	}
	return t, nil
}

// readIndex reads the succinct index. The index begins with up to six words for the first 54 positions. Each word has
// nine ranks of seven bits. Blocks follow, each for 512 positions. The rank of a position is the number of entries that
// begin at or before it.
func (d *loader) readIndex(t *lineTable, at attach.Address, iseqSize uint32) error {
	words := min(succImmediateWords, (int(iseqSize)+8)/9)
	blocks := 0
	if iseqSize >= succImmediate {
		blocks = (int(iseqSize) - succImmediate + succBlockBits - 1) / succBlockBits
	}
	b, err := d.view.Bytes(at, 8*words+succBlockSize*blocks)
	if err != nil {
		return err
	}
	d.Objects.Note(at, b, 0)
	t.immediate = make([]uint64, words)
	for i := range t.immediate {
		t.immediate[i] = view.U64(b[8*i:])
	}
	t.blocks = append([]byte(nil), b[8*words:]...)
	return nil
}

// line returns the line of the instruction at a position, in words. Like Ruby, it returns 0 if the table is empty.
func (t *lineTable) line(pos uint32) int32 {
	switch {
	case len(t.lines) == 0:
		return 0
	case len(t.lines) == 1:
		return t.lines[0]
	}
	i := 0
	if t.positions != nil {
		i = sort.Search(len(t.positions), func(i int) bool { return t.positions[i] > pos })
	} else {
		i = t.rank(pos)
	}
	// A position before the first entry gets the line of the first entry. An intact table has no position past its last
	// entry.
	return t.lines[min(max(i-1, 0), len(t.lines)-1)]
}

func (t *lineTable) rank(pos uint32) int {
	if pos < succImmediate {
		if int(pos/9) >= len(t.immediate) {
			return len(t.lines)
		}
		return int(t.immediate[pos/9] >> (7 * (pos % 9)) & 0x7f)
	}
	pos -= succImmediate
	if int(pos/succBlockBits+1)*succBlockSize > len(t.blocks) {
		return len(t.lines)
	}
	b := t.blocks[int(pos/succBlockBits)*succBlockSize:]
	pos %= succBlockBits
	small := pos / 64
	rank := int(view.U32(b))
	if small > 0 {
		rank += int(view.U64(b[8:]) >> (9 * (small - 1)) & 0x1ff)
	}
	upTo := ^uint64(0) >> (63 - pos%64)
	return rank + bits.OnesCount64(view.U64(b[16+8*small:])&upTo)
}

func (t *lineTable) bytes() int {
	return 4*len(t.lines) + 4*len(t.positions) + 8*len(t.immediate) + len(t.blocks)
}
