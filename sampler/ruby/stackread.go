package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/stackmem"
)

// These offsets and sizes are the same on every release from 2.5 to head, and on both machines (x86-64 and arm64). They
// were measured on running processes (docs/internals/stacks.md#control-frames and the following sections).
const (
	// rb_control_frame_t and struct zjit_jit_frame
	frameSP, frameISeq, frameSelf, jitFrameISeq = code.FrameSP, code.FrameISeq, code.FrameSelf, code.JITFrameISeq
	// rb_execution_context_t: its first three words (docs/internals/stacks.md#the-vm-stack)
	ecVMStack, ecVMStackSize, ecCFP, ecSpan = 0, 8, 16, 24
)

// stackOutcome is the result of reading a stack.
type stackOutcome uint8

const (
	// stackLost means that the execution context was unreadable. stackUnread means that other memory was unreadable.
	stackLost stackOutcome = iota
	stackUnread
	// stackNone means that the thread has no stack at present, because it has not started yet or has ended.
	stackNone
	// The next three outcomes mean that ddtop now knows the place of the frames, and must read them again. stackUnseen
	// means that the context is new, so no frames were planned. stackGrown means that the stack has more frames at its
	// inner end than planned. stackDeep means that there are more frames than one plan may read.
	stackUnseen
	stackGrown
	stackDeep
	// stackFound means that the frames were read.
	stackFound
	// stackSame means that the frames equal the kept frames. stackChanged means that they differ. In the second case
	// they may be torn (a mix of old and new data), because only one copy was read. So a second reading is needed.
	stackSame
	stackChanged
	// stackSwitched means that the thread switched to another fiber during the reading.
	stackSwitched
	// stackSlotless means that some JIT frames were not read, because their addresses were unknown. Now they are known,
	// so the stack can be read again.
	stackSlotless
	// stackTorn means that no frame is equal in all copies. stackPartly means that only the outer frames are equal.
	// stackAgreed means that all frames are equal.
	stackTorn
	stackPartly
	stackAgreed
)

// window returns the bounds of the VM stack of an execution context. ok is false if the values cannot be the bounds of
// a stack. It is also false for a thread without a stack, which has not started or has ended.
func (r *target) window(ec []byte) (low, end, cfp attach.Address, ok bool) {
	low = attach.Address(le64(ec[ecVMStack:]))
	words := le64(ec[ecVMStackSize:])
	cfp = attach.Address(le64(ec[ecCFP:]))
	if low == 0 || cfp == 0 || words == 0 || words > maxStackWords {
		return 0, 0, 0, false
	}
	end = low + attach.Address(words)*8
	if cfp < low || cfp >= end || int(end-cfp)%r.o.Code.FrameSize != 0 {
		return 0, 0, 0, false
	}
	return low, end, cfp, true
}

// locate returns where the frames of a stack are, by the context in the first copy. got are the ranges of this stack,
// with the bytes that were read.
func (r *stackReader) locate(t *thread, got []attach.Range) (stackArea, stackOutcome) {
	p := &t.stack.plan
	if p.kind == stackExact {
		if got[0].Failed {
			return p.area, stackUnread
		}
		return p.area, stackFound
	}
	context := t.ecBuf
	if p.contextFirst() {
		if got[0].Failed {
			return stackArea{}, stackLost
		}
		context, got = t.stack.copies[0].ec[:], got[1:]
	}
	low, end, cfp, ok := r.window(context)
	if !ok {
		return stackArea{}, stackNone
	}
	a := &p.area
	if a.inner > 0 && a.cfp == cfp && a.end == end && a.low == low && !got[0].Failed {
		return *a, stackFound // the frames are where they were planned, as for nearly all threads that stand still
	}
	area := stackArea{low: low, end: end, cfp: cfp, inner: int(end-cfp) / r.o.Code.FrameSize}
	switch {
	case area.inner > r.maxDepth+2*frameSlack:
		return area, stackDeep
	case a.inner == 0 || low != a.low || end != a.end:
		return area, stackUnseen
	case cfp < a.cfp || got[0].Failed:
		return area, stackGrown
	}
	return area, stackFound
}

// compare checks whether the frames that were read can be trusted. For this, they must equal the kept frames, or be
// equal in several copies. drop is the number of innermost frames in which the copies differ.
func (r *stackReader) compare(p *plan, t *thread, area *stackArea, running bool) (drop int, outcome stackOutcome) {
	s := &t.stack
	frames := s.found(area, r.o.Code.FrameSize)
	dropJIT, tornJIT := 0, false
	if r.vm.ZJITFrames {
		dropJIT, tornJIT = s.jit.Take(r.dec, r.sameCode, p.ranges, frames)
		s.jit.Learn(r.dec, s.copies[0].frames, len(frames))
	}
	switch {
	case area.outer == 0 && r.unchanged(s, frames, area.end, dropJIT, r.live(running)):
		return 0, stackSame
	case s.plan.copies == 1:
		return 0, stackChanged
	case p.failed(s.plan.at, s.plan.at+s.plan.size):
		return 0, stackUnread
	case attach.Address(le64(s.th2[:])) != s.ec:
		r.reads.Torn++
		return 0, stackSwitched
	}
	if s.restless > 0 {
		s.restless--
	}
	drop = r.agree(area, s.copies[:s.plan.copies])
	if drop > 0 || tornJIT {
		s.restless = restlessReads
	}
	if drop > dropJIT || tornJIT {
		r.reads.Torn++
	}
	drop = max(drop, dropJIT)
	switch {
	case drop == area.size():
		return drop, stackTorn
	case dropJIT > 0 && !tornJIT:
		return drop, stackSlotless
	case drop > 0:
		return drop, stackPartly
	}
	return 0, stackAgreed
}

// found returns the bytes of an area's frames, from the first copy.
func (s *stackState) found(area *stackArea, frameSize int) []byte {
	all := s.copies[0].frames
	return all[len(all)-area.size()*frameSize:]
}

// finishStack evaluates the reading of a stack. It returns false if the stack must be read again. If last is true, the
// tick allows no further reading, so it returns true. running is true if the thread may hold the GVL.
func (r *stackReader) finishStack(p *plan, t *thread, running, last bool) bool {
	s := &t.stack
	s.next = stackMoving
	area, outcome := r.locate(t, p.ranges[s.plan.at:][:s.plan.size])
	drop := 0
	if outcome == stackFound {
		drop, outcome = r.compare(p, t, &area, running)
		s.cfp = area.cfp
		if outcome != stackSame {
			s.quiet = 0
			s.noteSP(s.found(&area, r.o.Code.FrameSize))
			s.reach.Note(s.cfp, s.sp)
		}
	}
	exact := s.plan.kind == stackExact
	switch outcome {
	case stackNone:
		s.empty()
		return true
	case stackLost:
		s.fail()
		return last
	case stackUnseen, stackGrown, stackDeep:
		if outcome == stackUnseen {
			s.reach = stackmem.Reach{}
			r.ways[waySeen]++
		} else if outcome == stackGrown {
			r.ways[wayGrown]++
		}
		s.low, s.end, s.cfp, s.sp, s.keptEC = area.low, area.end, area.cfp, area.low+valueSlack, s.ec
		if last || outcome == stackDeep {
			return r.readExact(t, running, last)
		}
		return false
	case stackSame:
		s.quiet++
		s.quality |= sampler.StackFresh
		r.ways[s.plan.sameWay()]++
		return true
	case stackTorn, stackUnread, stackSwitched, stackChanged:
		if last && (exact || outcome == stackTorn) {
			s.fail()
		} // the known stack stays, but is not marked fresh
		return last
	case stackSlotless, stackPartly:
		// An exact reading that lacks innermost frames is not repeated. It is slow, and its copies would differ again.
		if !last && (!exact || outcome == stackSlotless) {
			return false
		}
	}
	return r.decodeStack(t, &area, drop, running, last || exact) || last
}

// readExact reads one large stack in a system call of its own, now that the stack's place is known. If the stack needs
// much memory, ddtop reads fewer frames of the next stack (stackReader.grow).
func (r *stackReader) readExact(t *thread, running, last bool) bool {
	if !r.planAndRead(&r.exact, t) {
		if last {
			t.stack.fail()
		}
		return last
	}
	return r.finishStack(&r.exact, t, running, last)
}

// planAndRead makes an exact reading (stackExact). It returns false if that fails. With ZJIT it reads twice: the first
// reading shows which control frames have JIT frames, and the second also reads these JIT frames.
func (r *stackReader) planAndRead(p *plan, t *thread) bool {
	reads, s := 1, &t.stack
	if r.vm.ZJITFrames {
		reads = 2
	}
	for i := range reads {
		p.reset()
		r.planStack(p, t, stackExact)
		if r.readPlan(p) != nil {
			return false
		}
		if i < reads-1 {
			s.jit.Learn(r.dec, s.copies[0].frames, len(s.copies[0].frames))
		}
	}
	return true
}

// sameCode reports whether two JIT frames of ZJIT have the same iseq.
func (r *stackReader) sameCode(a, b attach.Address) bool {
	off := attach.Address(jitFrameISeq)
	var one, two [8]byte
	batch := append(r.scratch[:0], attach.Range{Addr: a + off, Buf: one[:]}, attach.Range{Addr: b + off, Buf: two[:]})
	r.scratch = batch
	return r.readAll(batch) == nil && one == two
}
