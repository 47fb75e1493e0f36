package ruby

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
)

const (
	// moreCopies is how many copies, in addition to two, ddtop reads of a stack that keeps changing. A copy is torn if
	// the stack changes while it is read. Two copies are not enough, because two torn copies of the stack of a thread
	// in a loop can be alike by chance. On two idle CPUs this happened once in 3,000 pairs of copies (Ruby 4.0 with
	// YJIT). In the interpreter of Ruby 3.1 it happened once in about 2 million.
	moreCopies = 2
	// restlessReads is a number of readings. If two copies of a stack differ, ddtop reads moreCopies of this stack in
	// the next restlessReads readings.
	restlessReads = 64
)

// stackCopy is one copy of a stack: the beginning of the execution context, which is read first, and the frames.
type stackCopy struct {
	ec     [24]byte
	frames []byte
}

// stackArea says which frames of a VM stack [low, end) ddtop reads. These are the innermost frames, from cfp on, and
// the outermost frames. inner and outer are the numbers of these frames. outer is zero if no frames in the middle are
// left out.
type stackArea struct {
	low, end, cfp attach.Address
	inner, outer  int
}

func (a *stackArea) size() int { return a.inner + a.outer }

// at returns the address of frame number i. Frame 0 is the innermost one.
func (a *stackArea) at(i, frameSize int) attach.Address {
	if i < a.inner {
		return a.cfp + attach.Address(i*frameSize)
	}
	return a.end - attach.Address((a.size()-i)*frameSize)
}

// inward returns how many of the area's frames lie inward of the frame at address cfp. These are the frames that this
// frame has called, directly or not.
func (a *stackArea) inward(cfp attach.Address, frameSize int) int {
	if cfp <= a.cfp {
		return 0
	}
	if n := int(cfp-a.cfp) / frameSize; n < a.inner || a.outer == 0 {
		return n
	}
	return max(a.inner, a.size()-int(a.end-cfp)/frameSize)
}

// agree compares the first copy of a stack with the others, to find the frames that were really on the stack. drop is
// the number of innermost frames for which this is not certain. If the copies show different stacks, drop is the number
// of all frames.
//
// Equal bytes alone are not enough, because a frame's bytes stay in memory after the frame was popped. But ddtop reads
// the context between the frames of one copy and the frames of the next. A frame that is equal in both copies was in
// memory when this context was read. It was then on the stack, unless it lies inward of the innermost frame in this
// context.
func (r *stackReader) agree(a *stackArea, copies []stackCopy) (drop int) {
	for i := range copies[1:] {
		drop = max(drop, r.differ(a, copies[0].frames, &copies[i+1]))
	}
	return drop
}

// alike reports whether two copies of a stack have the same context and the same frames. Copies of the stack of a fiber
// that does not run must be alike.
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
		// Only pc and sp differ, so the same call of the method still runs in the second copy. Keep the frame as it is
		// in the first copy. If it were dropped, the time of a method that makes many short calls would be charged to
		// its caller. With ZJIT pc and code are not in the frame, so equal bytes prove less.
		if bytes.Equal(f[frameISeq:], g[frameISeq:]) && (!r.vm.ZJITFrames || i == 0 && cfp == a.cfp) {
			return i
		}
		return i + 1
	}
	return drop
}
