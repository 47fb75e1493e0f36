package ruby

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/places"
	"github.com/ddtop/ddtop/sampler/ruby/internal/rubyvm"
)

// wordMemory is an invented memory of 8-byte words. Reading at an address without a word fails.
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

// zjitReader returns a Reader for Ruby's development branch with ZJIT. It reads from m instead of a process.
func zjitReader(m wordMemory) *Reader {
	vm := &VM{Mem: m, Release: places.Release{Major: 4, Minor: 1}, ZJITFrames: true}
	vm.Places = &rubyvm.Offsets{Code: code.Places{FrameSize: 56, FrameJIT: 48}}
	return newReader(&target{vm: vm, mem: m, dec: vm.NewDecoder(nil), o: vm.Places}, Options{})
}

// TestAgree: if two copies of a stack differ in a frame, the method agree drops this frame and all frames inward of it.
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
	// stack returns the bytes of frames. Each frame is given by the addresses of its code and its pc.
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
	// cut is the area of a stack of ten frames. Only the innermost frame and the two outermost frames are read.
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
			// Each copy begins with two further frames, which lie inward of the area. The method agree must ignore
			// them.
			copies := []stackCopy{{frames: append(make([]byte, 2*size), first...)}}
			for _, o := range c.others {
				copies = append(copies, stackCopy{ec(o.depth), append(make([]byte, 2*size), o.frames...)})
			}
			if drop := r.stacks.agree(&c.area, copies); drop != c.drop {
				t.Errorf("%d frames dropped, want %d", drop, c.drop)
			}
		})
	}
}
