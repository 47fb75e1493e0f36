package ruby

import (
	"bytes"
	"slices"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// restingStack is the stack on which a thread last waited. ddtop keeps it while the thread runs, because most threads
// come back to the same place: the pop of their queue, or the read of their socket. If the frames then equal the kept
// frames byte for byte, ddtop reads them only once and need not decode them again.
type restingStack struct {
	keptStack
	// asideIn is the Dictionary's generation in which the stack was stored here. In a later generation, the Dictionary
	// may have evicted the stack's ID.
	asideIn sampler.Generation
}

func (r *stackReader) swapResting(s *stackState) {
	s.keptStack, s.resting.keptStack = s.resting.keptStack, s.keptStack
	s.resting.asideIn = r.dict.Generation()
	s.quiet = 0
	s.version++
}

// probe reports whether the thread seems to wait at the same place as before. One copy of its frames may then be
// enough. In this case probe sets s.cfp, so that the next plan reads the frames at this place. It returns false with
// ZJIT, because the known addresses of JIT frames (slots) belong to other frames.
func (r *stackReader) probe(s *stackState) bool {
	if s.end == 0 || r.vm.ZJITFrames {
		return false
	}
	if !s.rests && r.fits(s, s.end) {
		r.swapResting(s)
	}
	if !s.rests || s.keptEC != s.ec || s.keptEnd != s.end {
		return false
	}
	s.cfp = s.keptEnd - attach.Address(len(s.kept))
	return true
}

// unchanged reports whether frames equal the kept stack or the resting stack. If they equal the resting stack, this
// becomes the kept stack. end is the address at which frames end. drop is the number of innermost frames that may be
// wrong. If drop is not 0, unchanged returns false. live is explained at keptStack.
func (r *stackReader) unchanged(s *stackState, frames []byte, end attach.Address, drop int, live bool) bool {
	if r.same(s, frames, end, drop, live) {
		return true
	}
	if !r.fits(s, end) || !bytes.Equal(s.resting.kept, frames) {
		return false
	}
	r.swapResting(s)
	return r.same(s, frames, end, drop, live)
}

// fits reports whether the frames just read can equal the resting stack. For this, the execution context, the stack's
// end and the Dictionary's generation must be the same.
func (r *stackReader) fits(s *stackState, end attach.Address) bool {
	o := &s.resting
	return o.rests && o.keptEC == s.ec && o.keptEnd == end && o.asideIn == r.dict.Generation()
}

// same reports whether frames equal the kept frames and have the same names and lines. live is true if the thread may
// be executing the frames. If a JIT is on, live must be the same as for the kept frames, because the innermost frame's
// line depends on it. This does not apply to C functions.
func (r *stackReader) same(s *stackState, frames []byte, end attach.Address, drop int, live bool) bool {
	if live != s.live && r.dec.JITOn() && !s.topC[0] {
		return false
	}
	return s.keptEnd == end && s.keptEC == s.ec && bytes.Equal(frames, s.kept) &&
		drop == 0 && slices.Equal(s.jit.Values, s.slots) && s.quality&(sampler.StackFailed|sampler.StackPartial) == 0 && r.dec.Holds(s.proof)
}
