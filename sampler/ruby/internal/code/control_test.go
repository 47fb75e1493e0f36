package code

import (
	"bytes"
	"testing"

	"github.com/ddtop/ddtop/attach"
)

// otherMemory has the byte 1 everywhere, and records the ranges that are read.
type otherMemory struct{ read []attach.Address }

func (m *otherMemory) Read(attach.Address, []byte) error { return nil }

func (m *otherMemory) ReadBatch(ranges []attach.Range) (int, error) {
	for i := range ranges {
		m.read = append(m.read, ranges[i].Addr)
		copy(ranges[i].Buf, bytes.Repeat([]byte{1}, len(ranges[i].Buf)))
		ranges[i].Failed = ranges[i].Addr == 0
	}
	return 1, nil
}

// TestCopiedMemory reads values of a copied stack, and other memory. The values must come from the copy. If a part of
// the stack was not copied, it must count as unreadable, because the stack has changed since the copy. Only other
// memory may be read from the process.
func TestCopiedMemory(t *testing.T) {
	const low, end = 0x1000, 0x2000
	live := new(otherMemory)
	m := Copied{Memory: live, Low: low, End: end, Values: bytes.Repeat([]byte{7}, 24)}
	for _, c := range []struct {
		at     attach.Address
		want   byte
		failed bool
	}{
		{low, 7, false}, {low + 16, 7, false}, {low + 17, 0, true}, {low + 24, 0, true}, {end - 8, 0, true},
		{end, 1, false}, {low - 8, 1, false}, {low - 1, 1, false}, {0, 1, true}, {^attach.Address(0) - 3, 1, false},
	} {
		var before, b, after [8]byte
		ranges := []attach.Range{{Addr: 0x5000, Buf: before[:]}, {Addr: c.at, Buf: b[:]}, {Addr: low, Buf: after[:]}}
		live.read = nil
		if _, err := m.ReadBatch(ranges); err != nil {
			t.Fatal(err)
		}
		if x := ranges[1]; x.Failed != c.failed || b[0] != c.want || before[7] != 1 || after[7] != 7 || ranges[0].Failed || ranges[2].Failed {
			t.Errorf("%#x: %+v", c.at, ranges)
		}
		for _, at := range live.read {
			if at >= low && at < end {
				t.Errorf("%#x: live memory of the stack was read at %#x", c.at, at)
			}
		}
	}
}
