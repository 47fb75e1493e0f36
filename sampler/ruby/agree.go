package ruby

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
)

const (
	// moreCopies is the number of copies beyond two of a stack that changes faster than it is read. Each copy of it is
	// torn, and in a loop two may be torn alike. Measured on two idle CPUs: one of 3,000 double reads on 4.0 with YJIT,
	// one of about 2 million with the interpreter of 3.1.
	moreCopies = 2
	// restlessReads is the number of reads during which a stack counts as restless after its copies differed.
	restlessReads = 64
)

// stackCopy is one copy of an execution context and, read behind it, of the frames.
type stackCopy struct {
	ec     [24]byte
	frames []byte
}

// stackArea names the frames to read. They lie on the VM stack [low, end) and start at cfp. If the stack is deeper
// than the limit, only the inner innermost and the outer outermost frames are read. Otherwise outer is zero.
type stackArea struct {
	low, end, cfp attach.Address
	inner, outer  int
}

func (a *stackArea) size() int { return a.inner + a.outer }

// at is the address of frame i, counted from the innermost one outward.
func (a *stackArea) at(i, frameSize int) attach.Address {
	if i < a.inner {
		return a.cfp + attach.Address(i*frameSize)
	}
	return a.end - attach.Address((a.size()-i)*frameSize)
}

// inward is the number of frames that lie inward of cfp.
func (a *stackArea) inward(cfp attach.Address, frameSize int) int {
	if cfp <= a.cfp {
		return 0
	}
	if n := int(cfp-a.cfp) / frameSize; n < a.inner || a.outer == 0 {
		return n
	}
	return max(a.inner, a.size()-int(a.end-cfp)/frameSize)
}

// agree decides which frames are believed, for every way to read a stack. It returns how many innermost frames of the
// first copy to drop. It drops all of them if the copies are of different stacks. Each copy ends with the area's
// frames.
//
// The frames kept were the stack when the contexts of the other copies were read. Each context lies between two copies
// of the frames. So a frame that is the same in both was the same then. It was on the stack if it does not lie inward
// of that context's innermost frame. The context matters because a popped frame keeps its bytes and is the same in all
// copies.
func (r *stackReader) agree(a *stackArea, copies []stackCopy) (drop int) {
	for i := range copies[1:] {
		drop = max(drop, r.differ(a, copies[0].frames, &copies[i+1]))
	}
	return drop
}

// alike reports whether two copies of a stack have the same context and frames. The thread or fiber does not run, so
// nothing may have changed between them.
func alike(a, b *stackCopy) bool { return a.ec == b.ec && bytes.Equal(a.frames, b.frames) }

func (r *stackReader) differ(a *stackArea, first []byte, c *stackCopy) (drop int) {
	n, fs := a.size(), r.o.Code.FrameSize
	low, end, cfp, ok := r.window(c.ec[:])
	if !ok || low != a.low || end != a.end {
		return n
	}
	drop = a.inward(cfp, fs)
	one, two := first[len(first)-n*fs:], c.frames[len(c.frames)-n*fs:]
	if bytes.Equal(one[drop*fs:], two[drop*fs:]) {
		return drop
	}
	for i := n - 1; i >= drop; i-- {
		f, g := one[i*fs:(i+1)*fs], two[i*fs:(i+1)*fs]
		if bytes.Equal(f, g) {
			continue
		}
		// The innermost frame that both have went on between the copies, calling or returning: it is the same method's
		// frame, called from the same place, and in the first copy it stood where that says. Dropping it would charge
		// the time of a method that makes many short calls to its caller. What ZJIT's frames say lies elsewhere.
		if bytes.Equal(f[frameISeq:], g[frameISeq:]) && (!r.vm.ZJITFrames || i == 0 && cfp == a.cfp) {
			return i
		}
		return i + 1
	}
	return drop
}
