package ruby

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
)

const (
	// moreCopies is how many copies, in addition to two, ddtop reads of a stack that keeps changing. A copy is torn if
	// the stack changes while it is read. Two torn copies of a loop's stack can be alike by chance, so two are not
	// enough. On two idle CPUs this happened once in 3,000 pairs of copies (Ruby 4.0 with YJIT). In the interpreter of
	// Ruby 3.1 it happened once in about 2 million.
	moreCopies = 2
	// restlessReads is for how many readings of a stack ddtop reads moreCopies, after two copies of it differed.
	restlessReads = 64
)

// stackCopy is one copy of a stack: the beginning of the execution context, which is read first, and the frames.
type stackCopy struct {
	ec     [24]byte
	frames []byte
}

// stackArea says which frames of a VM stack [low, end) to read: the innermost ones from cfp on, and the outermost ones.
// inner and outer are the numbers of these frames. outer is zero unless frames in the middle are left out.
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

// inward returns how many of the area's frames the frame at address cfp has called, directly or not.
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
// the number of innermost frames for which this is not sure. If the copies are of different stacks, these are all
// frames.
//
// Equal bytes alone are not enough, because a frame's bytes stay in memory after the frame was popped. But between the
// frames of the first copy and the frames of each later copy, a context was read. A frame that is equal in both copies
// was in memory when this context was read. It was on the stack then, unless it lies inward of the innermost frame of
// this context.
func (r *stackReader) agree(a *stackArea, copies []stackCopy) (drop int) {
	for i := range copies[1:] {
		drop = max(drop, r.differ(a, copies[0].frames, &copies[i+1]))
	}
	return drop
}

// alike reports whether two copies of a stack have the same context and the same frames. If the stack belongs to a
// fiber that does not run, they must be alike.
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
		// Only pc and sp differ, so the same call of the method still runs in the second copy. The frame stays as it is
		// in the first copy. If it were dropped, the time of a method that makes many short calls would be charged to
		// its caller. With ZJIT pc and code are not in the frame, so equal bytes prove less.
		if bytes.Equal(f[frameISeq:], g[frameISeq:]) && (!r.vm.ZJITFrames || i == 0 && cfp == a.cfp) {
			return i
		}
		return i + 1
	}
	return drop
}
