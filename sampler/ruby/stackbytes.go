package ruby

import (
	"github.com/ddtop/ddtop/sampler/ruby/internal/code"
	"github.com/ddtop/ddtop/sampler/ruby/internal/stackmem"
)

const (
	// maxStackBytes limits the memory for copies of the stacks of all threads, in bytes. If they need more, ddtop
	// halves the number of frames that it reads of each stack (by default defaultMaxDepth). Of deeper stacks, it leaves
	// out the middle.
	maxStackBytes = 64 << 20
	// minDepth is the least number of frames that ddtop reads of a stack. With 20,000 threads this needs about 200 MB.
	minDepth = 32
	// valueBytes is how many bytes of values on the VM stack are read for each frame, up to maxValues in all.
	valueBytes = maxValues / defaultMaxDepth
)

// grow returns memory for n bytes of a thread's stack. It uses the memory of b if that is large enough. If all stacks
// together take too much memory, ddtop reads fewer frames of each stack from now on.
func (r *stackReader) grow(b []byte, n int) []byte {
	if cap(b) >= n {
		return b[:n]
	}
	b2 := stackmem.Grow(nil, n)
	r.stackBytes += cap(b2) - cap(b)
	if r.stackBytes > r.cutAt && r.maxDepth > minDepth {
		r.maxDepth = max(r.maxDepth/2, minDepth)
		r.cutAt = r.stackBytes + r.maxStackBytes/4
		r.shrink = true
	}
	return b2
}

// boundStacks keeps the memory of stacks within maxStackBytes. It is called between ticks.
func (r *stackReader) boundStacks() {
	if r.shrink {
		// The kept stacks may have more frames than the new limit allows. So all of them are dropped, and the next tick
		// reads them again.
		for _, t := range r.list.order {
			s := &t.stack
			s.values, s.kept, s.keptEC = nil, nil, 0
			s.resting, s.outer = restingStack{}, code.Kept{}
			for i := range s.copies {
				s.copies[i].frames = nil
			}
		}
		r.shrink = false
		r.countStacks()
	}
}

func (r *stackReader) countStacks() {
	sum := 0
	for _, t := range r.list.order {
		s := &t.stack
		sum += cap(s.values) + cap(s.kept) + cap(s.resting.kept) + s.outer.Bytes()
		for i := range s.copies {
			sum += cap(s.copies[i].frames)
		}
	}
	r.stackBytes, r.cutAt = sum, max(sum, r.maxStackBytes)
}

// deepenStacks makes ddtop read more frames of each stack again, if the number of threads has become small enough.
func (r *stackReader) deepenStacks() {
	r.countStacks()
	if r.stackBytes < r.maxStackBytes/8 && r.maxDepth < r.fullDepth {
		r.maxDepth = min(2*r.maxDepth, r.fullDepth)
	}
}
