package memtest

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// Edited is captured memory in which some words are replaced. A fuzzer uses it to imitate broken memory.
type Edited struct {
	Of    *Pages
	Words map[attach.Address]uint64
}

// Read implements attach.Memory.
func (c *Edited) Read(addr attach.Address, buf []byte) error {
	if err := c.Of.Read(addr, buf); err != nil {
		return err
	}
	for at, word := range c.Words {
		for i := range 8 {
			if a := at + attach.Address(i); a >= addr && a < addr+attach.Address(len(buf)) {
				buf[a-addr] = byte(word >> (8 * i))
			}
		}
	}
	return nil
}

// ReadBatch implements attach.Memory.
func (c *Edited) ReadBatch(ranges []attach.Range) (int, error) {
	for i := range ranges {
		ranges[i].Failed = c.Read(ranges[i].Addr, ranges[i].Buf) != nil
	}
	return 1, nil
}

// Places is a memory that records which addresses a decoder reads. A fuzzer then changes the words at these addresses,
// because it would hardly find them by chance.
type Places struct {
	attach.Memory
	At   []attach.Address
	seen map[attach.Address]bool
}

// NewPlaces returns Places that read from another memory (of).
func NewPlaces(of attach.Memory) *Places {
	return &Places{Memory: of, seen: make(map[attach.Address]bool)}
}

// ReadBatch records the addresses of the ranges, and reads the ranges from the other memory.
func (w *Places) ReadBatch(ranges []attach.Range) (int, error) {
	for _, r := range ranges {
		for a := r.Addr &^ 7; a < r.Addr+attach.Address(len(r.Buf)); a += 8 {
			if !w.seen[a] {
				w.seen[a] = true
				w.At = append(w.At, a)
			}
		}
	}
	return w.Memory.ReadBatch(ranges)
}

// AddEdits adds seeds to a fuzz test. process is the index of a captured process in the test's list. One seed has no
// edits, and n seeds have six edits each. apart is the distance between the first edits of two successive seeds.
func AddEdits(f *testing.F, process, n, apart int) {
	f.Add(uint8(process), []byte{})
	for n := range n {
		seed := make([]byte, 0, 64)
		for e := range 6 {
			seed = binary.LittleEndian.AppendUint16(seed, uint16(n*apart+e*131))
			seed = binary.LittleEndian.AppendUint32(seed, uint32(n*e)<<uint(e*3)|uint32(e&1))
		}
		f.Add(uint8(process), seed)
	}
}
