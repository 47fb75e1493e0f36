package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/slots"
	"github.com/ddtop/ddtop/sampler/ruby/internal/stackmem"
)

// Limits and thresholds for reading stacks.
const (
	// defaultMaxDepth is the number of frames that are kept of a stack by default. If a stack is deeper, its middle is
	// left out.
	defaultMaxDepth = 2048
	// maxStackWords is the largest size of a VM stack that ddtop accepts as true, in words. It is the size with
	// RUBY_THREAD_VM_STACK_SIZE set to 1 GiB.
	maxStackWords = 1 << 27
	// maxReachFrames limits how many frames are read inward of the last reading's innermost frame. If the last reading
	// had more frames than maxReachFrames, their number is the limit instead.
	maxReachFrames = 128
	// frameSlack is how many frames more than expected are read at the inner end of a stack, because the stack may have
	// grown.
	frameSlack = 16
	// valueSlack is how many bytes are read beyond the last known stack pointer. With a JIT, the stored stack pointer
	// can be out of date.
	valueSlack = 512
	// maxValues limits how many bytes of a VM stack's values are read together with the frames. The decoder reads
	// further values if it needs them.
	maxValues = 64 << 10
	// maxStackTries limits how often a tick reads a changing stack. After the last try, it keeps the frames that are
	// equal in all copies.
	maxStackTries = 3
	// quietAfter is a number of readings. If a stack was the same in so many readings, ddtop reads one copy of it
	// instead of two. For a thread that holds the GVL, ddtop always reads two copies.
	quietAfter = 2
	// maxFibers limits the number of fibers in a chain in which each has resumed the next.
	maxFibers = 64
)

// stackReader reads and decodes the stacks of threads.
type stackReader struct {
	*target
	list *threadList
	// maxDepth is the number of frames read of a stack. fullDepth is its value while there is enough memory. stackBytes
	// is the memory of all copies of stacks, up to maxStackBytes. If stackBytes exceeds cutAt, maxDepth is halved. From
	// then on, shrink is true until the larger copies are freed.
	maxDepth                                    int
	stackBytes, maxStackBytes, cutAt, fullDepth int
	shrink                                      bool
	// exact is the plan for reading a single stack at once (readExact).
	exact plan
	// ways counts the stacks by the way in which they were read.
	ways [ways]uint64

	lastDecodeError error
	// decode is set only in tests. It is called instead of dec.Decode.
	decode func(raw *code.Stack) (sampler.StackID, code.Info, error)
}

func newStackReader(tg *target, list *threadList, maxDepth int) *stackReader {
	if maxDepth <= 0 {
		maxDepth = defaultMaxDepth
	}
	return &stackReader{target: tg, list: list, maxDepth: maxDepth, fullDepth: maxDepth, maxStackBytes: maxStackBytes, cutAt: maxStackBytes}
}

// live reports whether the thread may be executing the stack. If it is, and its code is compiled, the innermost frame's
// pc may be out of date (code.Stack.Live). running is true if the thread may hold the GVL.
func (r *stackReader) live(running bool) bool { return running && !r.collecting }

// stackVersion is a number that changes each time a stack of a thread is decoded.
type stackVersion uint64

// keptStack is a stack that was read and decoded, and is kept to compare it with the next reading.
type keptStack struct {
	// kept has the accepted bytes of the frames, in [cfp, keptEnd). The fields below are what was decoded from them.
	kept            []byte
	keptEnd, keptEC attach.Address
	// proof can check whether the decoded names are still up to date. They are out of date in two cases: other code has
	// taken the place of the stack's code, or names that were missing can be read now.
	proof   code.Proof
	id      sampler.StackID
	quality sampler.StackQuality
	omitted uint32
	// handlers is how many of the frames belong to a rescue or an ensure.
	handlers int
	// topSelf are the receivers (self) of the innermost frames, innermost first. topC says which of these frames are C
	// functions.
	topSelf [4]uint64
	topC    [4]bool
	// slots are the addresses of the control frames' JIT frames, for ZJIT in Ruby's development branch (head).
	slots []attach.Address
	// rests is true if the thread neither had the GVL nor wanted it when the stack was accepted. live is true if the
	// stack was decoded as one that the thread is executing (code.Stack.Live).
	rests, live bool
}

// stackState is what ddtop knows about a thread's stack. It is kept from tick to tick.
type stackState struct {
	ec attach.Address // the execution context that this tick found
	// The fields end and low are the ends of the VM stack. cfp and sp are the last known innermost frame and its stack
	// pointer.
	end, low, cfp, sp attach.Address

	reach stackmem.Reach

	// plan describes the last reading of the stack. next is the kind of the next reading in the same tick.
	plan     stackPlan
	next     stackKind
	copies   [2 + moreCopies]stackCopy
	restless int // how many further readings of the stack make more than two copies
	th2      [8]byte
	values   []byte

	keptStack
	// resting is the stack on which the thread last waited, if the thread may come back to this stack.
	resting restingStack
	// fibers are the stacks of the fibers that resumed the running fiber. fibersOf is the version of the thread's own
	// stack with which they were read.
	fibers   []sampler.StackID
	fibersOf stackVersion
	quiet    int
	version  stackVersion
	doubtful doubtfulStack
	// outer has what the last decoding found for the outer frames. If these frames are unchanged, the next decoding
	// uses it and need not decode them again.
	outer code.Kept
	// jit is used only for ZJIT in Ruby's development branch (head).
	jit slots.Slots
}

func (r *target) add(addr attach.Address, buf []byte) { r.plan.add(addr, buf) }

// noteSP stores the stack pointer of the innermost frame. From it, the next reading decides how many values to read. In
// compiled code the stack pointer can be out of date.
func (s *stackState) noteSP(frames []byte) {
	s.sp = attach.Address(le64(frames[frameSP:]))
	if s.sp < s.low || s.sp > s.cfp {
		s.sp = s.low + valueSlack
	}
}

// decodeStack turns the frames of an area into a StackID. It leaves out the drop innermost frames, which are not
// certain. It returns false if the frames could not be decoded. last is true if the tick does not read the stack again.
func (r *stackReader) decodeStack(t *thread, area *stackArea, drop int, running, last bool) bool {
	s, fs := &t.stack, r.o.Code.FrameSize
	partial, frames := drop > 0, s.found(area, fs)[drop*fs:]
	raw := code.Stack{Racing: running && s.plan.copies > 1, End: s.end, EC: s.ec, Kept: &s.outer, CFP: area.at(drop, fs), Frames: frames, Running: running && !partial, Settled: r.collecting,
		Partial: partial, Again: running && !last}
	if area.outer > 0 {
		raw.Cut = max(area.inner-drop, 0)
	}
	if s.plan.values > 0 {
		raw.Values, raw.ValuesAt = s.values, area.low
	}
	if r.vm.ZJITFrames {
		raw.JIT = s.jit.Values[len(s.jit.Values)-len(frames)/fs:]
	}
	return r.accept(t, &raw, s.plan.otherWay())
}

// accept decodes frames that are certain, and keeps them. It returns false if they could not be decoded.
func (r *stackReader) accept(t *thread, raw *code.Stack, how way) bool {
	s := &t.stack
	taken := s.outer.Bytes()
	decode := r.dec.Decode
	if r.decode != nil {
		decode = r.decode
	}
	id, info, err := decode(raw)
	r.stackBytes += s.outer.Bytes() - taken
	r.budget.spent = true
	r.reads.Calls += uint64(info.Calls)
	if err == code.ErrUnlinked {
		return r.doubt(t, raw, info.Unlinked, how)
	}
	if err != nil {
		r.lastDecodeError = err
		s.fail()
		return false
	}
	if raw.Racing {
		s.doubtful.readings = 0
	}
	active := r.active(t)
	if active && s.rests {
		r.swapResting(s)
	}
	s.id = id
	s.version++
	s.quality = sampler.StackFresh
	s.omitted, s.handlers = 0, info.Handlers
	if raw.Cut > 0 {
		s.quality |= sampler.StackTruncated
		s.omitted = uint32((int(s.end-s.cfp)-len(raw.Frames))/r.o.Code.FrameSize + info.Placeless)
	}
	r.ways[how]++
	if info.Reused > 0 {
		r.ways[waySuffix]++
	}
	if raw.Partial {
		s.quality |= sampler.StackPartial
		r.ways[wayPart]++
	}
	if info.UncertainTop {
		s.quality |= sampler.StackUncertainTop
	}
	s.rests, s.live = !active && !raw.Partial && raw.Cut == 0, raw.Live()
	s.kept = append(r.grow(s.kept, len(raw.Frames))[:0], raw.Frames...)
	s.keptEnd, s.keptEC, s.proof = s.end, s.ec, info.Proof
	s.slots = append(s.slots[:0], raw.JIT...)
	s.noteTop(raw.Frames, r.o.Code.FrameSize, r.dec)
	return true
}

// noteTop stores the receivers (self) of the innermost frames, which show what a blocked thread waits for.
func (s *stackState) noteTop(frames []byte, size int, d *code.Decoder) {
	for i := range s.topSelf {
		s.topSelf[i], s.topC[i] = 0, false
		if off := i * size; off+size <= len(frames) {
			s.topSelf[i] = le64(frames[off+frameSelf:])
			s.topC[i] = d.CFrame(frames[off : off+size])
		}
	}
}

func (s *stackState) fail() {
	s.quality = sampler.StackFresh | sampler.StackFailed
	s.id, s.omitted, s.quiet = 0, 0, 0
	s.kept, s.rests = s.kept[:0], false
	s.keptEC, s.keptEnd, s.end = 0, 0, 0
	s.topSelf = [4]uint64{}
	s.version++
}

// empty sets s to the state of a thread without a stack, which has not started yet or is about to end.
func (s *stackState) empty() {
	s.fail()
	s.quality = sampler.StackFresh
	s.fibers = s.fibers[:0]
	s.outer = code.Kept{}
}
