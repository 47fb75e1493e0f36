package ruby

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
)

const (
	// moreCopies is how many copies beyond two are read of a stack that keeps changing during its readings. Two torn
	// copies of a loop may be alike by chance. On two idle CPUs, one of 3,000 pairs of copies was (Ruby 4.0 with
	// YJIT), and one of about 2 million (interpreter of Ruby 3.1).
	moreCopies = 2
	// After copies of a stack differed, its next restlessReads readings make moreCopies.
	restlessReads = 64
)

// stackCopy is one copy of an execution context, and of the frames, which are read after the context.
type stackCopy struct {
	ec     [24]byte
	frames []byte
}

// stackArea is the place of the frames to read. They lie on the VM stack [low, end) and start at cfp. inner is the
// number of innermost frames to read, and outer of outermost ones. outer is zero unless the stack's middle is left
// out.
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

// inward returns how many of the area's frames lie further in, at lower addresses, than the frame at address cfp.
func (a *stackArea) inward(cfp attach.Address, frameSize int) int {
	if cfp <= a.cfp {
		return 0
	}
	if n := int(cfp-a.cfp) / frameSize; n < a.inner || a.outer == 0 {
		return n
	}
	return max(a.inner, a.size()-int(a.end-cfp)/frameSize)
}

// agree proves the frames of the first copy with the other copies. drop is the number of innermost frames that are not
// proven, or all frames if the copies are of different stacks. Each copy ends with the area's frames.
//
// The context of each later copy was read between the frames of two copies. A frame that is equal in both was in
// memory at that moment. It was also on the stack, unless it lies further in than that context's innermost frame.
// Popped frames keep their bytes, so equal bytes alone prove nothing.
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
		// shows where it was then. Dropping it would charge the time of a method that makes many short calls to its
		// caller. ZJIT keeps pc and code outside the frame, so equal bytes prove less there.
		if bytes.Equal(f[frameISeq:], g[frameISeq:]) && (!r.vm.ZJITFrames || i == 0 && cfp == a.cfp) {
			return i
		}
		return i + 1
	}
	return drop
}
