package ruby

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
)

const (
	// moreCopies is how many copies beyond two are read of a stack that changes faster than ddtop reads it. All its
	// copies are torn, and in a loop two may be torn alike. On two idle CPUs this happened in one of 3,000 double
	// reads (4.0 with YJIT), and in one of about 2 million (interpreter of 3.1).
	moreCopies = 2
	// restlessReads is the number of reads during which a stack counts as restless after its copies differed.
	restlessReads = 64
)

// stackCopy is one copy of an execution context, and of the frames, which are read after the context.
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

// at returns the address of frame i. Frame 0 is the innermost one.
func (a *stackArea) at(i, frameSize int) attach.Address {
	if i < a.inner {
		return a.cfp + attach.Address(i*frameSize)
	}
	return a.end - attach.Address((a.size()-i)*frameSize)
}

// inward returns how many of the area's frames lie inward of the frame at cfp.
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
// The kept frames were the stack when the contexts of the other copies were read. Each context was read between two
// copies of the frames. A frame that is the same in both copies was the same then. It was on the stack if it does not
// lie inward of that context's innermost frame. The context matters because a popped frame keeps its bytes.
func (r *stackReader) agree(a *stackArea, copies []stackCopy) (drop int) {
	for i := range copies[1:] {
		drop = max(drop, r.differ(a, copies[0].frames, &copies[i+1]))
	}
	return drop
}

// alike reports whether two copies of a stack have the same context and frames. A stack of a fiber that does not run
// does not change, so its copies must be alike.
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
		// Only pc and sp of this frame differ: it is the same call, which went on between the copies. The first copy
		// says truly where it was. Dropping it would charge the time of a method that makes many short calls to its
		// caller. ZJIT keeps pc and code outside the frame, so equal bytes prove less there.
		if bytes.Equal(f[frameISeq:], g[frameISeq:]) && (!r.vm.ZJITFrames || i == 0 && cfp == a.cfp) {
			return i
		}
		return i + 1
	}
	return drop
}
