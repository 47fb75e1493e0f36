package ruby

import "github.com/ddtop/ddtop/sampler/ruby/internal/code"

const (
	// maxStackBytes bounds the copies of stacks that are kept for all threads together, in bytes. Past it the depth to
	// which stacks are read (defaultMaxDepth, as a rule) is halved, which shows as stacks whose middle was left out.
	maxStackBytes = 64 << 20
	// minDepth is the depth, in frames, below which it is not halved: of 20,000 threads that is about 200 MB.
	minDepth = 32
	// valueBytes is how much of the values on a stack is read for a frame, in bytes, up to maxValues.
	valueBytes = maxValues / defaultMaxDepth
)

// grow returns memory for n bytes of a thread's stack: b's own if it is large enough. If stacks take too much memory in
// all, they are read less deep from now on.
func (r *stackReader) grow(b []byte, n int) []byte {
	if cap(b) >= n {
		return b[:n]
	}
	b2 := grow(nil, n)
	r.stackBytes += cap(b2) - cap(b)
	if r.stackBytes > r.cutAt && r.maxDepth > minDepth {
		r.maxDepth = max(r.maxDepth/2, minDepth)
		r.cutAt = r.stackBytes + r.maxStackBytes/4
		r.shrink = true
	}
	return b2
}

// boundStacks keeps what stacks take within maxStackBytes. It is called between ticks.
func (r *stackReader) boundStacks() {
	if r.shrink {
		// What was read deeper than from now on is read again.
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

// deepenStacks lets stacks be read deeper when few threads are left.
func (r *stackReader) deepenStacks() {
	r.countStacks()
	if r.stackBytes < r.maxStackBytes/8 && r.maxDepth < r.fullDepth {
		r.maxDepth = min(2*r.maxDepth, r.fullDepth)
	}
}
