package code

import (
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// flagFinish marks the control frame with which the interpreter was entered from C (VM_FRAME_FLAG_FINISH in vm_core.h,
// the same from 2.5 to head).
const flagFinish = 0x20

// Control is what a control frame means to a native stack.
type Control struct {
	// C is set for the frame of a C function, Finish for one with which the interpreter was entered from C.
	C, Finish bool
}

// Controls says what control frames mean to a native stack, innermost first. It leaves out the frame that a stack
// begins with, in which no code runs. ok is false if an environment could not be read.
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

// ReadAll fills ranges of memory. It is false if one of them could not be read.
func ReadAll(mem attach.Memory, ranges ...attach.Range) bool {
	_, err := mem.ReadBatch(ranges)
	return err == nil && !slices.ContainsFunc(ranges, func(x attach.Range) bool { return x.Failed })
}
