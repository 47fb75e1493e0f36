package ruby

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// wordMemory is a memory of 8-byte words; what is not there can't be read.
type wordMemory map[attach.Address]uint64

func (m wordMemory) Read(a attach.Address, buf []byte) error {
	ranges := []attach.Range{{Addr: a, Buf: buf}}
	if _, err := m.ReadBatch(ranges); err != nil {
		return err
	}
	if ranges[0].Failed {
		return &attach.ReadError{Addr: a, Want: len(buf), Err: errNotMapped}
	}
	return nil
}

func (m wordMemory) ReadBatch(ranges []attach.Range) (int, error) {
	for i := range ranges {
		r := &ranges[i]
		for off := 0; off < len(r.Buf); off += 8 {
			w, ok := m[r.Addr+attach.Address(off)]
			r.Failed = r.Failed || !ok && off == 0
			binary.LittleEndian.PutUint64(r.Buf[off:], w)
		}
	}
	return 1, nil
}

// zjitReader is a Reader of head's ZJIT over such a memory.
func zjitReader(m wordMemory) *Reader {
	vm := &VM{Mem: m, Release: places.Release{Major: 4, Minor: 1}, ZJITFrames: true}
	vm.Places = &rubyvm.Offsets{Code: code.Places{FrameSize: 56, FrameJIT: 48}}
	return newReader(&target{vm: vm, mem: m, dec: vm.NewDecoder(nil), o: vm.Places}, Options{})
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
	const a, b, c = 0x7000_0008, 0x7000_0108, 0x7100_0008 // slots; c on a page far away
	const returnC = 1                                     // ZJIT_JIT_RETURN_C_FRAME
	frames := controlFrames(a+8, returnC, b+8, 0, c+8)
	memory := func() wordMemory {
		return wordMemory{a: 0x5000, b: 0x5100, c: 0x5200, 0x5008: 0x90, 0x5308: 0x90, 0x5408: 0x91}
	}
	// read takes the slots of frames as a double read does, the memory being changed in between.
	read := func(r *Reader, frames []byte, copies int, change func(wordMemory)) (*jitSlots, int, bool) {
		j := &jitSlots{}
		j.learn(r.dec, frames, len(frames))
		batch := j.planBefore(nil, copies)
		before := len(batch)
		if _, err := r.mem.ReadBatch(batch); err != nil {
			t.Fatal(err)
		}
		change(r.mem.(wordMemory))
		batch = j.planBehind(batch)
		if _, err := r.mem.ReadBatch(batch[before:]); err != nil {
			t.Fatal(err)
		}
		drop, torn := j.take(r.stacks, batch, frames)
		return j, drop, torn
	}
	tests := []struct {
		name   string
		copies int
		change func(wordMemory)
		drop   int
		torn   bool
		want   []attach.Address
	}{
		{"nothing changes", 2, func(wordMemory) {}, 0, false, []attach.Address{0x5000, 0, 0x5100, 0, 0x5200}},
		{"once", 1, func(m wordMemory) { m[b] = 1 }, 0, false, []attach.Address{0x5000, 0, 0x5100, 0, 0x5200}},
		{"four times", 4, func(wordMemory) {}, 0, false, []attach.Address{0x5000, 0, 0x5100, 0, 0x5200}},
		{"a caller goes on", 2, func(m wordMemory) { m[b] = 0x5300 }, 3, true, []attach.Address{0, 0, 0, 0, 0x5200}},
		{"a caller goes on, seen in the last copy", 4, func(m wordMemory) { m[b] = 0x5300 }, 3, true, []attach.Address{0, 0, 0, 0, 0x5200}},
		{"the outermost goes on", 2, func(m wordMemory) { m[c] = 0x5300 }, 5, true, make([]attach.Address, 5)},
		{"the innermost goes on in its code", 2, func(m wordMemory) { m[a] = 0x5300 }, 0, false, []attach.Address{0x5300, 0, 0x5100, 0, 0x5200}},
		{"the innermost is other code", 2, func(m wordMemory) { m[a] = 0x5400 }, 1, true, []attach.Address{0, 0, 0x5100, 0, 0x5200}},
		{"the innermost leads nowhere", 2, func(m wordMemory) { m[a] = 0x9999 }, 1, true, []attach.Address{0, 0, 0x5100, 0, 0x5200}},
		{"a stack ends", 2, func(m wordMemory) { delete(m, c) }, 5, false, make([]attach.Address, 5)},
		{"empty", 2, func(m wordMemory) { m[b] = 0 }, 3, true, []attach.Address{0, 0, 0, 0, 0x5200}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			j, drop, torn := read(zjitReader(memory()), frames, c.copies, c.change)
			if drop != c.drop || torn != c.torn {
				t.Errorf("%d frames dropped, torn %v; want %d, %v", drop, torn, c.drop, c.torn)
			}
			if !slices.Equal(j.values, c.want) {
				t.Errorf("values %v, want %v", j.values, c.want)
			}
		})
	}
	j, _, _ := read(zjitReader(memory()), frames, 2, func(wordMemory) {})
	if len(j.spans) != 2 {
		t.Errorf("%d ranges for two slots that lie together and one that doesn't: %v", len(j.spans), j.spans)
	}
	// The frames have one more now, whose slot was not read, or another one.
	r := zjitReader(memory())
	for _, more := range [][]byte{controlFrames(0x6000_0008, a+8, returnC, b+8, 0, c+8), controlFrames(0x6000_0008, returnC, b+8, 0, c+8)} {
		batch := j.planBehind(j.planBefore(nil, 2))
		if _, err := r.mem.ReadBatch(batch); err != nil {
			t.Fatal(err)
		}
		if drop, torn := j.take(r.stacks, batch, more); drop != 1 || torn {
			t.Errorf("%d frames dropped, torn %v; want the innermost, which was not read", drop, torn)
		}
	}
}

// TestJITSlotsGuess: frames that were there before tell where the next ones' slots will be, when they lie near.
func TestJITSlotsGuess(t *testing.T) {
	r := zjitReader(nil)
	var j jitSlots
	used := controlFrames(0x7000_0108, 0x7000_0208)
	stale := controlFrames(0x6000_0008, 0x7000_0f08, 0, 0x7000_0088)
	j.learn(r.dec, append(stale, used...), len(used))
	want := []attach.Address{0, 0, 0, 0x7000_0080, 0x7000_0100, 0x7000_0200}
	if !slices.Equal(j.at, want) {
		t.Errorf("slots %v, want %v", j.at, want)
	}
}

// TestAgree compares copies of a stack: what is not the same in all of them is dropped with all that lies inward.
func TestAgree(t *testing.T) {
	const size = 56
	r := zjitReader(nil)
	low, end := attach.Address(0x10000), attach.Address(0x20000)
	ec := func(depth int) (b [24]byte) {
		binary.LittleEndian.PutUint64(b[ecVMStack:], uint64(low))
		binary.LittleEndian.PutUint64(b[ecVMStackSize:], uint64(end-low)/8)
		binary.LittleEndian.PutUint64(b[ecCFP:], uint64(end)-uint64(depth*size))
		return b
	}
	// A frame is its code and its pc.
	stack := func(frames ...[2]uint64) []byte {
		b := make([]byte, size*len(frames))
		for i, f := range frames {
			binary.LittleEndian.PutUint64(b[size*i+frameISeq:], f[0])
			binary.LittleEndian.PutUint64(b[size*i+code.FramePC:], f[1])
		}
		return b
	}
	first := stack([2]uint64{3, 30}, [2]uint64{2, 20}, [2]uint64{1, 10})
	same := first
	type other struct {
		depth  int
		frames []byte
	}
	whole := stackArea{low: low, end: end, cfp: end - 3*size, inner: 3}
	// Of ten frames the innermost and the two outermost are read.
	cut := stackArea{low: low, end: end, cfp: end - 10*size, inner: 1, outer: 2}
	tests := []struct {
		name   string
		area   stackArea
		others []other
		drop   int
	}{
		{"the same", whole, []other{{3, same}}, 0},
		{"went on calling", whole, []other{{9, same}}, 0},
		{"the innermost pc moves", whole, []other{{3, stack([2]uint64{3, 31}, [2]uint64{2, 20}, [2]uint64{1, 10})}}, 0},
		{"the innermost is other code", whole, []other{{3, stack([2]uint64{4, 30}, [2]uint64{2, 20}, [2]uint64{1, 10})}}, 1},
		{"a caller's pc moves", whole, []other{{3, stack([2]uint64{3, 30}, [2]uint64{2, 21}, [2]uint64{1, 10})}}, 2},
		{"returned", whole, []other{{2, same}}, 1},
		{"returned and moved", whole, []other{{2, stack([2]uint64{3, 30}, [2]uint64{2, 21}, [2]uint64{1, 10})}}, 2},
		{"the outermost differs", whole, []other{{3, stack([2]uint64{3, 30}, [2]uint64{2, 20}, [2]uint64{9, 10})}}, 3},
		{"the third copy tells", whole, []other{{3, same}, {3, stack([2]uint64{3, 30}, [2]uint64{2, 21}, [2]uint64{1, 10})}, {3, same}}, 2},
		{"the third context tells", whole, []other{{3, same}, {1, same}, {3, same}}, 2},
		{"all four are the same", whole, []other{{3, same}, {3, same}, {3, same}}, 0},
		{"the last is nothing like it", whole, []other{{3, same}, {3, same}, {3, stack([2]uint64{3, 30}, [2]uint64{2, 20}, [2]uint64{9, 10})}}, 3},
		{"cut", cut, []other{{10, same}}, 0},
		{"cut, returned by one", cut, []other{{9, same}}, 1},
		{"cut, returned to the outer part", cut, []other{{2, same}}, 1},
		{"cut, returned within the outer part", cut, []other{{1, same}}, 2},
		{"no stack any more", whole, []other{{0, same}}, 3},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			copies := []stackCopy{{frames: append(make([]byte, 2*size), first...)}} // with frames further in, which do not count
			for _, o := range c.others {
				copies = append(copies, stackCopy{ec(o.depth), append(make([]byte, 2*size), o.frames...)})
			}
			if drop := r.stacks.agree(&c.area, copies); drop != c.drop {
				t.Errorf("%d frames dropped, want %d", drop, c.drop)
			}
		})
	}
}
