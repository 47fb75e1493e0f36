package ruby

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
)

const (
	// moreCopies is how many more copies than two are made of a stack that changes faster than it is read. Each copy of it is
	// torn, and in a loop two may be torn alike: on 4.0 with YJIT one of 3,000 double reads, with the interpreter of 3.1 one
	// of some 2 million, on two CPUs that did nothing else.
	moreCopies = 2
	// restlessReads is for how many reads a stack counts as one of these after its copies have differed.
	restlessReads = 64
)

// stackCopy is one more copy of an execution context and its frames.
type stackCopy struct {
	ec     [24]byte
	frames []byte
}

// agreeAll compares the first copy with all others: the number of outer frames that are equal in all, and the number of
// innermost frames to drop because they are not.
func (r *Reader) agreeAll(s *stackState, frames []byte, low, end, cfp attach.Address) (equal, inner int) {
	equal, inner = r.agree(s, frames, s.ec2[:], s.frames2, low, end, cfp)
	for i := range s.more {
		if !s.extra || equal == 0 {
			break
		}
		m := &s.more[i]
		e, drop := r.agree(s, frames, m.ec[:], m.frames, low, end, cfp)
		if e == 0 {
			return 0, 0
		}
		equal, inner = min(equal, e), max(inner, drop)
	}
	return equal, inner
}

// agree compares the first copy with another: the number of outer frames that are equal, and the number of innermost
// frames to drop because they are not. The innermost frame's pc and sp move with every instruction and are not compared.
func (r *Reader) agree(s *stackState, frames, ec2, frames2 []byte, low, end, cfp attach.Address) (equal, inner int) {
	low2, end2, cfp2, ok := r.window(ec2)
	if !ok || low2 != low || end2 != end {
		return 0, 0
	}
	fs := r.o.frameSize
	n := len(frames) / fs
	if cfp2 == cfp {
		copy2 := frames2[cfp-s.from:]
		if bytes.Equal(frames[frameISeq:], copy2[frameISeq:]) {
			return n, 0
		}
	}
	if cfp2 < s.from {
		cfp2 = s.from
	}
	m := int(end-cfp2) / fs
	for i := 1; i <= n && i <= m; i++ {
		a := frames[(n-i)*fs : (n-i+1)*fs]
		b := frames2[len(frames2)-i*fs : len(frames2)-(i-1)*fs]
		if !bytes.Equal(a, b) {
			// The innermost frame that both have went on between the copies, calling or returning: it is the same method's
			// frame, called from the same place, and in the first copy it stood where that says. Dropping it would charge the
			// time of a method that makes many short calls to its caller. What ZJIT's frames say lies elsewhere.
			if !r.vm.ZJITFrames && bytes.Equal(a[frameISeq:], b[frameISeq:]) {
				equal = i
			}
			break
		}
		equal = i
	}
	if equal == n {
		// The frames are the same and only the depth moved; what lies inward of the first copy is not in both.
		return n, 0
	}
	return equal, n - equal
}
