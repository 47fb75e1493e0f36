package slots

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/heap"
)

// words is a memory of 8-byte words. A word that is not in it cannot be read.
type words map[attach.Address]uint64

func (m words) read(ranges []attach.Range) {
	for i := range ranges {
		r := &ranges[i]
		for off := 0; off < len(r.Buf); off += 8 {
			w, ok := m[r.Addr+attach.Address(off)]
			r.Failed = r.Failed || !ok && off == 0
			binary.LittleEndian.PutUint64(r.Buf[off:], w)
		}
	}
}

// sameCode reports whether two JIT frames have the same iseq.
func (m words) sameCode(a, b attach.Address) bool {
	v, ok := m[a+code.JITFrameISeq]
	w, also := m[b+code.JITFrameISeq]
	return ok && also && v == w
}

func zjitDecoder() *code.Decoder {
	return code.NewDecoder(code.Target{ZJITFrames: true, Code: &code.Places{FrameSize: 56, FrameJIT: 48}, Objects: &heap.Places{}}, nil)
}

// controlFrames makes control frames whose jit_return fields hold the given values.
func controlFrames(jitReturn ...uint64) []byte {
	b := make([]byte, 56*len(jitReturn))
	for i, v := range jitReturn {
		binary.LittleEndian.PutUint64(b[56*i+48:], v)
	}
	return b
}

func TestJITSlots(t *testing.T) {
	const a, b, c = 0x7000_0008, 0x7000_0108, 0x7100_0008 // addresses of slots. c is on a page far away
	const returnC = 1                                     // ZJIT_JIT_RETURN_C_FRAME
	dec := zjitDecoder()
	frames := controlFrames(a+8, returnC, b+8, 0, c+8)
	memory := func() words {
		return words{a: 0x5000, b: 0x5100, c: 0x5200, 0x5008: 0x90, 0x5308: 0x90, 0x5408: 0x91}
	}
	// read copies the slots of frames twice: before and after the moment at which the frames are read. change changes
	// the memory between the two copies.
	read := func(m words, frames []byte, copies int, change func(words)) (*Slots, int, bool) {
		j := &Slots{}
		j.Learn(dec, frames, len(frames))
		batch := j.PlanBefore(nil, copies)
		before := len(batch)
		m.read(batch)
		change(m)
		batch = j.PlanBehind(batch)
		m.read(batch[before:])
		drop, torn := j.Take(dec, m.sameCode, batch, frames)
		return j, drop, torn
	}
	tests := []struct {
		name   string
		copies int
		change func(words)
		drop   int
		torn   bool
		want   []attach.Address
	}{
		{"nothing changes", 2, func(words) {}, 0, false, []attach.Address{0x5000, 0, 0x5100, 0, 0x5200}},
		{"once", 1, func(m words) { m[b] = 1 }, 0, false, []attach.Address{0x5000, 0, 0x5100, 0, 0x5200}},
		{"four times", 4, func(words) {}, 0, false, []attach.Address{0x5000, 0, 0x5100, 0, 0x5200}},
		{"a caller goes on", 2, func(m words) { m[b] = 0x5300 }, 3, true, []attach.Address{0, 0, 0, 0, 0x5200}},
		{"a caller goes on, seen in the last copy", 4, func(m words) { m[b] = 0x5300 }, 3, true, []attach.Address{0, 0, 0, 0, 0x5200}},
		{"the outermost goes on", 2, func(m words) { m[c] = 0x5300 }, 5, true, make([]attach.Address, 5)},
		{"the innermost goes on in its code", 2, func(m words) { m[a] = 0x5300 }, 0, false, []attach.Address{0x5300, 0, 0x5100, 0, 0x5200}},
		{"the innermost is other code", 2, func(m words) { m[a] = 0x5400 }, 1, true, []attach.Address{0, 0, 0x5100, 0, 0x5200}},
		{"the innermost leads nowhere", 2, func(m words) { m[a] = 0x9999 }, 1, true, []attach.Address{0, 0, 0x5100, 0, 0x5200}},
		{"a stack ends", 2, func(m words) { delete(m, c) }, 5, false, make([]attach.Address, 5)},
		{"empty", 2, func(m words) { m[b] = 0 }, 3, true, []attach.Address{0, 0, 0, 0, 0x5200}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			j, drop, torn := read(memory(), frames, c.copies, c.change)
			if drop != c.drop || torn != c.torn {
				t.Errorf("%d frames dropped, torn %v; want %d, %v", drop, torn, c.drop, c.torn)
			}
			if !slices.Equal(j.Values, c.want) {
				t.Errorf("values %v, want %v", j.Values, c.want)
			}
		})
	}
	j, _, _ := read(memory(), frames, 2, func(words) {})
	if len(j.spans) != 2 {
		t.Errorf("%d ranges for two slots that lie together and one that doesn't: %v", len(j.spans), j.spans)
	}
	// Now the stack has another frame, whose slot was not read: on top of the earlier frames, or in place of one of
	// them.
	m := memory()
	for _, more := range [][]byte{controlFrames(0x6000_0008, a+8, returnC, b+8, 0, c+8), controlFrames(0x6000_0008, returnC, b+8, 0, c+8)} {
		batch := j.PlanBehind(j.PlanBefore(nil, 2))
		m.read(batch)
		if drop, torn := j.Take(dec, m.sameCode, batch, more); drop != 1 || torn {
			t.Errorf("%d frames dropped, torn %v; want the innermost, which was not read", drop, torn)
		}
	}
}

// TestJITSlotsGuess passes frames that are left over from calls that have returned. Their slots must also be read,
// because they show where the slots of the next frames will be. Slots far from the current slots must be ignored.
func TestJITSlotsGuess(t *testing.T) {
	dec := zjitDecoder()
	var j Slots
	used := controlFrames(0x7000_0108, 0x7000_0208)
	stale := controlFrames(0x6000_0008, 0x7000_0f08, 0, 0x7000_0088)
	j.Learn(dec, append(stale, used...), len(used))
	want := []attach.Address{0, 0, 0, 0x7000_0080, 0x7000_0100, 0x7000_0200}
	if !slices.Equal(j.at, want) {
		t.Errorf("slots %v, want %v", j.at, want)
	}
}
