package ruby

import (
	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
)

// Named limits of reading stacks.
const (
	// defaultMaxDepth is how many frames of a stack are kept: deeper ones lose their middle.
	defaultMaxDepth = 2048
	// maxStackWords refuses a VM stack size that can't be: RUBY_THREAD_VM_STACK_SIZE of 1 GiB.
	maxStackWords = 1 << 27
	// frameSlack is how many frames deeper than the last time a stack may have grown and still be read at once.
	frameSlack = 16
	// valueSlack is how many bytes past the last known stack pointer are read: a JIT's sp can be stale.
	valueSlack = 512
	// maxValues bounds the value part of a VM stack that is read along; a decoder reads what it misses.
	maxValues = 64 << 10
	// maxStackTries is how often a stack that changed while it was read is tried before its outer part is taken.
	maxStackTries = 3
	// quietAfter is the number of equal reads after which a thread that owns nothing is read once instead of twice.
	quietAfter = 2
	// maxFibers bounds the chain of fibers that resumed one another.
	maxFibers = 64
)

// stackVersion changes with each decoded stack of a thread.
type stackVersion uint64

// stackState is what is known of a thread's stack from tick to tick.
type stackState struct {
	ec attach.Address // as read for this tick
	// end and low are the ends of the VM stack; cfp and sp the last known innermost frame and its stack pointer.
	end, low, cfp, sp attach.Address

	copies   [2 + moreCopies]stackCopy
	planned  int // index of the first range in the batch
	made     int // how many copies are planned: one for a quiet thread
	restless int // reads for which more copies than two are made
	th2      [8]byte
	values   []byte
	from     attach.Address // where the copies' frames start
	valuesAt attach.Address
	bare     bool // planned without the context: the segment has it
	probing  bool // planned, in a call of its own, as one copy of the place where the thread waited before

	// kept is the last accepted content of [cfp, end), with id, quality and omitted as decoded from it.
	kept    []byte
	keptEnd attach.Address
	keptEC  attach.Address
	// proof says how long they mean what they did: the code that they name can go away and other code come to stand in its
	// place, and names that could not be read may be readable later.
	proof   code.Proof
	id      sampler.StackID
	quality sampler.StackQuality
	omitted uint32
	fibers  []sampler.StackID
	quiet   int
	version stackVersion
	// topSelf are the receivers of the innermost frames, innermost first; for blocked.go.
	topSelf [4]uint64
	topC    [4]bool
	// rests: kept was accepted while the thread neither had the GVL nor wanted it. resting is such a one from before.
	rests   bool
	resting restingStack
	// live: kept was decoded as that of a thread that executes it (code.Stack.Live).
	live bool
	// jit is used for head's ZJIT alone.
	jit jitSlots
}

func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n, n+n/2)
	}
	return b[:n]
}

// planStack adds the ranges of a thread's stack to the batch: once for a quiet thread (what is equal to the last read
// has not changed), twice or more for one that may run: context and frames in the same call, before and after each other
// (docs/internals/stacks.md#racing-reads).
func (r *Reader) planStack(t *thread, double bool) {
	s := &t.stack
	s.made = s.copiesFor(double)
	zjit := r.vm.ZJITFrames
	if zjit {
		r.batch = s.jit.planBefore(r.batch, s.made)
	}
	s.planned = len(r.batch)
	s.from, s.valuesAt = 0, 0
	if s.bare = !double && !s.probing && s.ec == t.ecAt && t.ecIn == r.ticks; !s.bare {
		r.add(s.ec, s.copies[0].ec[:])
	}
	if s.keptEC == s.ec && s.end != 0 {
		fs := attach.Address(r.o.frameSize)
		s.from = s.cfp - frameSlack*fs
		if !double {
			s.from = s.cfp
		}
		if s.from < s.low || s.from > s.end {
			s.from = s.low
		}
		if n := int(s.end - s.from); n > 0 && n <= (r.maxDepth+2*frameSlack)*r.o.frameSize {
			for i := range s.copies[:s.made] {
				c := &s.copies[i]
				c.frames = r.grow(c.frames, n)
				if i > 0 {
					r.add(s.ec, c.ec[:])
				}
				r.add(s.from, c.frames)
				if n := int(s.sp-s.low) + valueSlack; i == 0 && double && s.sp >= s.low && n <= min(maxValues, r.maxDepth*valueBytes) && s.low+attach.Address(n) <= s.end {
					s.values = r.grow(s.values, n)
					s.valuesAt = s.low
					r.add(s.low, s.values)
				}
			}
		} else {
			s.from = 0
		}
	}
	if double {
		r.add(t.addr+attach.Address(r.o.thEC), s.th2[:])
		if zjit {
			r.batch = s.jit.planBehind(r.batch)
		}
	}
}

// copiesFor is how many copies are made of a stack: double, of one that may run.
func (s *stackState) copiesFor(double bool) int {
	switch {
	case !double:
		return 1
	case s.restless > 0:
		return 2 + moreCopies
	}
	return 2
}

func (r *Reader) add(addr attach.Address, buf []byte) {
	r.batch = append(r.batch, attach.Range{Addr: addr, Buf: buf})
}

// window says where the stack of an execution context lies; ok is false when it has none (not started, or ended) or when
// its numbers can't be those of a stack.
func (r *Reader) window(ec []byte) (low, end, cfp attach.Address, ok bool) {
	low = attach.Address(le64(ec[ecVMStack:]))
	words := le64(ec[ecVMStackSize:])
	cfp = attach.Address(le64(ec[ecCFP:]))
	if low == 0 || cfp == 0 || words == 0 || words > maxStackWords {
		return 0, 0, 0, false
	}
	end = low + attach.Address(words)*8
	if cfp < low || cfp >= end || int(end-cfp)%r.o.frameSize != 0 {
		return 0, 0, 0, false
	}
	return low, end, cfp, true
}

// finishStack takes what a planned read received: unchanged, decoded, or to be tried again (false).
func (r *Reader) finishStack(t *thread, running, last bool) bool {
	s := &t.stack
	ranges := r.batch[s.planned:]
	if s.bare {
		copy(s.copies[0].ec[:], t.ecBuf)
	} else if ranges[0].Failed {
		s.fail()
		return last
	} else {
		ranges = ranges[1:]
	}
	low, end, cfp, ok := r.window(s.copies[0].ec[:])
	if !ok {
		s.empty()
		return true
	}
	if int(end-cfp) > (r.maxDepth+2*frameSlack)*r.o.frameSize {
		// Deeper than the limit: read by readDeep, which cuts the middle.
		s.low, s.end, s.cfp, s.keptEC = low, end, cfp, s.ec
		if r.readDeep(t, running) {
			return true
		}
		if last {
			s.fail()
		}
		return last
	}
	if s.from == 0 || ranges[0].Failed || low != s.low || end != s.end || cfp < s.from {
		// Another fiber, a first sight, or it grew past the guess: now it's known where to read.
		if s.from == 0 || low != s.low || end != s.end {
			r.ways[waySeen]++
		} else {
			r.ways[wayGrown]++
		}
		s.low, s.end, s.cfp, s.sp, s.keptEC = low, end, cfp, low+valueSlack, s.ec
		if last && !r.readDeep(t, running) {
			s.fail()
		}
		return last
	}
	frames := s.copies[0].frames[cfp-s.from:]
	dropJIT, tornJIT := 0, false
	if r.vm.ZJITFrames {
		dropJIT, tornJIT = s.jit.take(r, r.batch, frames)
		s.jit.learn(r.dec, s.copies[0].frames, len(frames))
	}
	if r.unchanged(s, frames, end, dropJIT, r.live(running)) {
		s.cfp = cfp
		s.quiet++
		s.quality |= sampler.StackFresh
		switch {
		case s.probing:
			r.ways[wayResting]++
		case s.made == 1:
			r.ways[wayOnce]++
		default:
			r.ways[waySame]++
		}
		return true
	}
	s.quiet = 0
	s.cfp = cfp
	s.noteSP(frames)
	if s.made == 1 {
		return false // changed: read it twice
	}
	for i := range s.rangesBehind() {
		if ranges[i].Failed {
			return false
		}
	}
	if !r.stillRuns(s) {
		return false
	}
	area := stackArea{low: low, end: end, cfp: cfp, inner: len(frames) / r.o.frameSize}
	drop := r.settle(s, &area, dropJIT, tornJIT)
	if drop == area.size() {
		if last {
			s.fail()
		}
		return last
	}
	if drop > 0 && !last {
		return false
	}
	how := wayTwice
	if s.made > 2 {
		how = wayMore
	}
	return r.decodeStack(t, &area, drop, how, running, last) || last
}

// stillRuns reports whether the thread was on the same fiber behind all copies.
func (r *Reader) stillRuns(s *stackState) bool {
	if attach.Address(le64(s.th2[:])) == s.ec {
		return true
	}
	r.reads.Torn++
	return false
}

// settle says how many innermost frames of a reading are to be dropped, all when nothing of it can be believed: those that the
// copies do not agree on, and with them those whose JIT frames could not be told (dropJIT, and tornJIT as of jitSlots.take).
func (r *Reader) settle(s *stackState, area *stackArea, dropJIT int, tornJIT bool) (drop int) {
	if s.restless > 0 {
		s.restless--
	}
	drop = r.agree(area, s.copies[:s.made])
	if drop > 0 || tornJIT {
		s.restless = restlessReads
	}
	if drop > dropJIT || tornJIT {
		r.reads.Torn++
	}
	return max(drop, dropJIT)
}

// rangesBehind is the number of ranges that planStack added for a running thread behind the first context.
func (s *stackState) rangesBehind() int {
	n := 2 * s.made
	if s.valuesAt != 0 {
		n++
	}
	return n
}

// noteSP notes where the stack pointer of the innermost frame is, or may be: a JIT's can be stale.
func (s *stackState) noteSP(frames []byte) {
	s.sp = attach.Address(le64(frames[frameSP:]))
	if s.sp < s.low || s.sp > s.cfp {
		s.sp = s.low + valueSlack
	}
}

// decodeStack turns an area's frames without the drop innermost ones, which settle did not believe, into a StackID; false when
// they could not be decoded. last: the stack is not read again.
func (r *Reader) decodeStack(t *thread, area *stackArea, drop int, how way, running, last bool) bool {
	s, fs := &t.stack, r.o.frameSize
	partial, frames := drop > 0, s.copies[0].frames
	frames = frames[len(frames)-(area.size()-drop)*fs:]
	raw := code.Stack{End: s.end, CFP: area.at(drop, fs), Frames: frames, Running: running && !partial, Settled: r.collecting,
		Partial: partial, Again: running && !last}
	if area.outer > 0 {
		raw.Cut = max(area.inner-drop, 0)
	}
	if s.valuesAt != 0 {
		raw.Values, raw.ValuesAt = s.values, s.valuesAt
	}
	if r.vm.ZJITFrames {
		raw.JIT = s.jit.values[len(s.jit.values)-len(frames)/fs:]
	}
	return r.accept(t, &raw, how)
}

// accept decodes frames that are believed, and keeps them. It is false when they could not be decoded.
func (r *Reader) accept(t *thread, raw *code.Stack, how way) bool {
	s := &t.stack
	id, info, err := r.dec.Decode(raw)
	r.reads.Calls += uint64(info.Calls)
	if err != nil {
		r.lastDecodeError = err
		s.fail()
		return false
	}
	active := r.active(t)
	if active && s.rests {
		r.swapResting(s)
	}
	s.id = id
	s.version++
	s.quality = sampler.StackFresh
	s.omitted = 0
	if raw.Cut > 0 {
		s.quality |= sampler.StackTruncated
		s.omitted = uint32((int(s.end-s.cfp)-len(raw.Frames))/r.o.frameSize + info.Placeless)
	}
	r.ways[how]++
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
	s.jit.kept = append(s.jit.kept[:0], raw.JIT...)
	s.noteTop(raw.Frames, r.o.frameSize, r.dec)
	return true
}

// noteTop keeps the receivers of the innermost frames: they name what a blocked thread waits for.
func (s *stackState) noteTop(frames []byte, size int, d *Decoder) {
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

// empty is a thread without a stack: not started yet, or at its end.
func (s *stackState) empty() {
	s.fail()
	s.quality = sampler.StackFresh
	s.fibers = s.fibers[:0]
}
