package ruby

import (
	"fmt"
	"math/rand/v2"

	"github.com/ddtop/ddtop/attach"
)

// stackKind says in which situation a stack is read, such as stackMoving for a thread that may run. It decides where
// ddtop expects the frames and how many copies of them it reads. If there are several copies, ddtop keeps the frames
// that are equal in them. A single copy must equal the stack that was kept from an earlier reading.
type stackKind uint8

const (
	// stackMoving is for a thread that may run. Each copy has the execution context, the frames at their last place,
	// and some more frames inward of the last innermost frame. The last range of the call shows which fiber's context
	// the thread runs at that time.
	stackMoving stackKind = iota
	// stackStill is for a thread that has stood still. One copy of its stack is enough if it equals the stack that
	// ddtop kept from an earlier reading.
	stackStill
	// stackResting is like stackStill, for a thread that has just released the GVL. ddtop expects the frames at the
	// place where the thread waited before. It also reads the thread's execution context, because an earlier reading of
	// the context may be out of date.
	stackResting
	// stackExact reads exactly the frames whose place the last read context shows. It is for a stack that is too deep
	// to guess its place. It is also for a stack that was larger than each guess. If the stack is deeper than the
	// limit, its middle is left out.
	stackExact
	stackKinds
)

func (k stackKind) String() string {
	return [stackKinds]string{"moving", "still", "resting", "exact"}[k]
}

// stackPlan describes how one call reads a stack.
type stackPlan struct {
	kind stackKind
	// area says where the frames to read are. If it is empty, their place is not known, and only the context is read.
	area stackArea
	// copies is the number of copies of the frames. values is the number of bytes of the stack's values, counted from
	// its low end.
	copies, values int
	// bare is true if this call already reads the execution context together with the thread's struct. Then the stack's
	// plan does not read it again.
	bare bool
	// at is the index of the stack's first range in the plan of the call, or -1. size is the number of the stack's
	// ranges. The slots of JIT frames, whose ranges are before and after these ranges, are not included.
	at, size int
}

func (p *stackPlan) contextFirst() bool { return !p.bare && p.kind != stackExact }

func (p *stackPlan) String() string {
	if p.area.size() == 0 {
		return fmt.Sprintf("%s, the context alone", p.kind)
	}
	return fmt.Sprintf("%s, copies: %d, frames from %s: %d and %d, bytes of values: %d, context beside the thread: %v",
		p.kind, p.copies, p.area.cfp, p.area.inner, p.area.outer, p.values, p.bare)
}

// decide plans the next reading of a thread's stack from what is known (docs/internals/stacks.md#racing-reads).
func (p *stackPlan) decide(r *stackReader, t *thread, kind stackKind) {
	s, fs := &t.stack, r.o.Code.FrameSize
	*p = stackPlan{kind: kind, copies: 1, bare: kind == stackStill && s.ec == t.ecAt && t.ecIn == r.list.ticks}
	if kind == stackMoving || kind == stackExact {
		p.copies = 2
		if s.restless > 0 {
			p.copies += moreCopies
		}
	}
	if s.keptEC != s.ec || s.end == 0 {
		return
	}
	from, sp := s.cfp, s.sp
	if kind == stackMoving {
		// If a single reading was much deeper than all others, the next reading does not cover that depth. To read so
		// many frames every time would cost more than to read a deep stack twice when it occurs again.
		in, high := s.reach.Farthest()
		most := max(s.end-from, attach.Address(maxReachFrames*fs))
		if in != 0 && in < from && from-in <= most && int(s.end-in)/fs <= r.maxDepth {
			from = in
			if r.valuesTo(s, high) > 0 {
				sp = max(sp, high)
			}
		}
		from -= attach.Address(frameSlack * fs)
	}
	if from < s.low || from > s.end {
		from = s.low
	}
	inner, outer := int(s.end-from)/fs, 0
	if kind == stackExact && inner > r.maxDepth+1 {
		inner = r.maxDepth * 3 / 4
		outer = r.maxDepth - inner + 1 // one more for the dummy frame at the bottom
	} else if from = s.end - attach.Address(inner*fs); inner > r.maxDepth+2*frameSlack {
		return
	}
	p.area = stackArea{low: s.low, end: s.end, cfp: from, inner: inner, outer: outer}
	if kind == stackMoving {
		p.values = r.valuesTo(s, sp)
	}
}

// valuesTo returns how many bytes of values on a stack to read if its stack pointer is sp. It returns zero if there are
// too many to read.
func (r *stackReader) valuesTo(s *stackState, sp attach.Address) int {
	n := int(sp-s.low) + valueSlack
	if sp < s.low || n > min(maxValues, r.maxDepth*valueBytes) || s.low+attach.Address(n) > s.end {
		return 0
	}
	return n
}

func (r *stackReader) planStack(p *plan, t *thread, kind stackKind) {
	s := &t.stack
	of := &s.plan
	of.decide(r, t, kind)
	p.begin(forStack, t)
	if r.vm.ZJITFrames {
		p.ranges = s.jit.PlanBefore(p.ranges, of.copies)
	}
	of.at = len(p.ranges)
	if of.values > 0 {
		s.values = r.grow(s.values, of.values)
	}
	r.addCopies(p, of, s.ec, s.copies[:of.copies], s.values, r.outOfStep(s))
	if of.copies > 1 {
		p.add(t.addr+attach.Address(r.o.ThEC), s.th2[:])
	}
	of.size = len(p.ranges) - of.at
	if r.vm.ZJITFrames {
		p.ranges = s.jit.PlanBehind(p.ranges)
	}
}

// addCopies adds to p the ranges of all copies of a stack. Each copy has the context at ec and the frames, and the
// first also has the values. Between two copies it adds a random number of further ranges, which the parameter fillers
// limits. They are read only so that some time passes between the copies.
func (r *stackReader) addCopies(p *plan, of *stackPlan, ec attach.Address, copies []stackCopy, values []byte, fillers int) {
	a, fs := &of.area, r.o.Code.FrameSize
	n, cut := a.size()*fs, a.inner*fs
	for i := range copies {
		c := &copies[i]
		for n := rand.IntN(fillers + 1); i > 0 && n > 0; n-- {
			p.add(ec, c.ec[:])
		}
		if i > 0 || of.contextFirst() {
			p.add(ec, c.ec[:])
		}
		if n == 0 {
			return
		}
		c.frames = r.grow(c.frames, n)
		p.add(a.cfp, c.frames[:cut])
		if a.outer > 0 {
			p.add(a.at(a.inner, fs), c.frames[cut:])
		}
		if i == 0 && of.values > 0 {
			p.add(a.low, values)
		}
	}
}
