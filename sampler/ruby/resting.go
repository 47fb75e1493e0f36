package ruby

import (
	"bytes"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// restingStack is the stack on which a thread waited the last time, kept while it runs: mostly it comes back to where it
// was, to the same pop of its queue or the same read of its socket. Then one copy of the frames is enough, because what
// equals accepted frames byte for byte needs no second copy, and nothing has to be decoded. A busy program has tens of
// threads a tick that have just released the GVL and are looked at for what.
type restingStack struct {
	frames  []byte
	end, ec attach.Address
	proof   code.Proof
	id      sampler.StackID
	quality sampler.StackQuality
	omitted uint32
	// handlers is as in stackState.
	handlers int
	topSelf  [4]uint64
	topC     [4]bool
	jit      []attach.Address
	// rests: it is one. live is as in stackState.
	rests, live bool
	// asideIn is the Dictionary's generation in which it was put aside: in a later one its ID may be evicted.
	asideIn sampler.Generation
}

// swapResting exchanges the kept stack for the resting one.
func (r *stackReader) swapResting(s *stackState) {
	o := &s.resting
	o.asideIn = r.dict.Generation()
	s.kept, o.frames = o.frames, s.kept
	s.keptEnd, o.end = o.end, s.keptEnd
	s.keptEC, o.ec = o.ec, s.keptEC
	s.proof, o.proof = o.proof, s.proof
	s.id, o.id = o.id, s.id
	s.quality, o.quality = o.quality, s.quality
	s.omitted, o.omitted = o.omitted, s.omitted
	s.handlers, o.handlers = o.handlers, s.handlers
	s.topSelf, o.topSelf = o.topSelf, s.topSelf
	s.topC, o.topC = o.topC, s.topC
	s.jit.kept, o.jit = o.jit, s.jit.kept
	s.rests, o.rests = o.rests, s.rests
	s.live, o.live = o.live, s.live
	s.quiet = 0
	s.version++
}

// probe reports whether one copy of a thread's frames may be enough because it waits where it waited before, and makes that the
// place to read. (The slots of ZJIT's frames are learned from the frames last read, which were others.)
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

// unchanged reports whether frames that end at end are those kept, or those that rest, which are kept then. live: the thread
// may be executing them.
func (r *stackReader) unchanged(s *stackState, frames []byte, end attach.Address, drop int, live bool) bool {
	if r.same(s, frames, end, drop, live) {
		return true
	}
	if !r.fits(s, end) || !bytes.Equal(s.resting.frames, frames) {
		return false
	}
	r.swapResting(s)
	return r.same(s, frames, end, drop, live)
}

// fits reports whether there is a resting stack of the execution context and VM stack at hand.
func (r *stackReader) fits(s *stackState, end attach.Address) bool {
	o := &s.resting
	return o.rests && o.ec == s.ec && o.end == end && o.asideIn == r.dict.Generation()
}

// same reports whether frames are those kept, and still mean what they did. Where a JIT is on, the innermost one's line depends
// on whether the thread executes it.
func (r *stackReader) same(s *stackState, frames []byte, end attach.Address, drop int, live bool) bool {
	if live != s.live && r.dec.JITOn() && !s.topC[0] {
		return false
	}
	return s.keptEnd == end && s.keptEC == s.ec && bytes.Equal(frames, s.kept) &&
		s.jit.unchanged(drop) && s.quality&(sampler.StackFailed|sampler.StackPartial) == 0 && r.dec.Holds(s.proof)
}
