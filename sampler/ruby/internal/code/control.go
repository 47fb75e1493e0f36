package code

import (
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// flagFinish is set in the first control frame after C code has called the interpreter (VM_FRAME_FLAG_FINISH in
// vm_core.h, the same from 2.5 to head).
const flagFinish = 0x20

// Control describes a control frame for the reader of a thread's native stack (the stack of its C code).
type Control struct {
	// C is true for the frame of a C function. Finish is true if C code entered the interpreter with this frame.
	C, Finish bool
}

// Controls returns a Control for each control frame, innermost first. It leaves out the dummy frame at the outer end of
// a stack, in which no code runs. ok is false if an environment could not be read.
func (d *classifier) Controls(mem attach.Memory, frames []byte) (out []Control, ok bool) {
	n := len(frames) / d.o.FrameSize
	flags, ranges := make([]byte, n*8), make([]attach.Range, n)
	for i := range n {
		ranges[i] = attach.Range{Addr: attach.Address(view.U64(frames[i*d.o.FrameSize+FrameEP:])), Buf: flags[i*8:][:8]}
	}
	if !ReadAll(mem, ranges...) {
		return nil, false
	}
	for i := range n {
		flag := view.U64(flags[i*8:])
		if magic := flag & d.o.magicMask; magic != d.o.magicDummy {
			c := magic == d.o.magicCFunc && d.CFrame(frames[i*d.o.FrameSize:])
			out = append(out, Control{C: c, Finish: flag&flagFinish != 0})
		}
	}
	return out, true
}

// ReadAll fills ranges of memory. It returns false if one of them could not be read.
func ReadAll(mem attach.Memory, ranges ...attach.Range) bool {
	_, err := mem.ReadBatch(ranges)
	return err == nil && !slices.ContainsFunc(ranges, func(x attach.Range) bool { return x.Failed })
}

// Copied reads a process's memory, except the values of a VM stack, which it reads from an earlier copy.
type Copied struct {
	attach.Memory
	// Low and End are the lowest address and the end of the VM stack. Values has the bytes that were copied, from Low
	// on.
	Low, End attach.Address
	Values   []byte
}

// ReadBatch fills the ranges that are on the VM stack from the copy. If the copy lacks such a range, the range is
// marked Failed.
func (m Copied) ReadBatch(ranges []attach.Range) (calls int, err error) {
	var rest []attach.Range
	var at []int
	for i := range ranges {
		x := &ranges[i]
		switch from, n := uint64(x.Addr-m.Low), uint64(len(m.Values)); { // from is huge for an address below Low
		case from <= n && n-from >= uint64(len(x.Buf)):
			copy(x.Buf, m.Values[from:])
		case x.Addr >= m.Low && x.Addr < m.End:
			x.Failed = true
		default:
			rest, at = append(rest, *x), append(at, i)
		}
	}
	if len(rest) == 0 {
		return 0, nil
	}
	calls, err = m.Memory.ReadBatch(rest)
	for i, x := range rest {
		ranges[at[i]].Failed = x.Failed
	}
	return calls, err
}
