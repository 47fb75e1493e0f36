package stream

import (
	"cmp"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// maxChainParts limits the parts of a Chain. The time of holders for which there is no part is added up in
// ChainSum.OtherNS.
const maxChainParts = 1024

// ChainPart is the part of a wait in which one thread held the GVL, in one state and in one method.
type ChainPart struct {
	Thread sampler.ThreadID
	// State is what the thread did while it held the GVL: Running, GC or Stalled.
	State gvl.State
	// Method is the innermost Ruby method of the holder's stack, with the C function that it called: "Report#build →
	// JSON.generate". It is empty if no stack is known. If the part has several stacks, Stack is the one with the most
	// time.
	Method string
	Stack  sampler.StackID
	NS     int64
}

// ChainSum says which threads held the GVL during one wait for it, and for how long, in ns. All its times, including
// the times of Parts, add up to the length of the wait.
type ChainSum struct {
	// Parts are the parts of the wait by holder, the longest first. UnlistedNS is the time in which the GVL was held by
	// threads that no sample listed. OtherNS is the time of holders beyond the limit maxChainParts.
	Parts      []ChainPart
	UnlistedNS int64
	OtherNS    int64
	// NoCPUNS, HandoverNS and NobodyNS are times in which no thread held the GVL, in ns. In NoCPUNS, the waiting thread
	// could have run but had no CPU. HandoverNS is the rest of the time after the waiting thread was chosen as the next
	// holder. NobodyNS is all remaining time.
	NoCPUNS, HandoverNS, NobodyNS int64
	// UnknownNS is the part of the wait for which the Stream got no samples.
	UnknownNS int64
}

// Chain finds out which threads held the GVL during one wait. It is a gvl.Consumer and needs a Stream of its own. This
// Stream must get all samples from before the wait until after it. Chain is not safe for concurrent use.
type Chain struct {
	gvl.Ignore
	stream *Stream
	dict   *sampler.Dictionary
	wait   gvl.Wait
	ractor sampler.RactorID
	sums   map[chainKey]chainPart
	sum    ChainSum // the sums so far; its field Parts stays empty
	// toldNS is the end of the last LockInterval that the Chain received. lateNS is how long, after the waiting thread
	// was chosen, no thread held the GVL.
	toldNS, lateNS int64
}

type chainKey struct {
	thread sampler.ThreadID
	state  gvl.State
	method string
}

type chainPart struct {
	ns, most int64
	stack    sampler.StackID
	stacks   map[sampler.StackID]int64
}

// NewChain returns a Chain that follows s and divides the wait w. The wait is for the GVL of the ractor
// w.Before.Ractor, or of ractor 1 if this is zero. IDs point into dict. dict may be nil.
func NewChain(s *Stream, w *gvl.Wait, dict *sampler.Dictionary) *Chain {
	c := &Chain{stream: s, dict: dict, wait: *w, ractor: max(w.Before.Ractor, 1), sums: make(map[chainKey]chainPart), toldNS: w.FromNS}
	s.Attach(c)
	return c
}

// Lock adds the part of an interval that lies within the wait.
func (c *Chain) Lock(i *gvl.LockInterval) {
	from, to := max(i.FromNS, c.toldNS), min(i.ToNS, c.wait.ToNS)
	if i.Ractor != c.ractor || to <= from {
		return
	}
	c.sum.UnknownNS += from - c.toldNS
	c.toldNS = to
	ns := to - from
	switch {
	case i.Unlisted.Holds:
		c.sum.UnlistedNS += ns
	// sampled times are inexact, so the waiting thread can seem to hold the GVL before its wait has ended
	case i.Thread == 0, i.Thread == c.wait.Thread:
		c.lateNS += max(to-max(from, c.wait.ToNS-c.wait.HandoverNS), 0)
		c.sum.NobodyNS += ns
	default:
		c.add(i, ns)
	}
}

func (c *Chain) add(i *gvl.LockInterval, ns int64) {
	stack := cmp.Or(i.Turn, i.Stack)
	k := chainKey{i.Thread, i.State, code.RubyMethod(c.dict, stack)}
	p, ok := c.sums[k]
	if !ok {
		if len(c.sums) >= maxChainParts {
			c.sum.OtherNS += ns
			return
		}
		p.stacks = make(map[sampler.StackID]int64)
	}
	p.ns += ns
	if len(p.stacks) < maxChainParts || p.stacks[stack] != 0 {
		p.stacks[stack] += ns
	}
	if n := p.stacks[stack]; n > p.most {
		p.most, p.stack = n, stack
	}
	c.sums[k] = p
}

// Sum returns the times of the holders, by the samples that were fed until now.
func (c *Chain) Sum() ChainSum {
	c.stream.SettleLocks()
	s := c.sum
	s.UnknownNS += c.wait.ToNS - c.toldNS
	s.NoCPUNS = min(c.wait.NoCPUNS, s.NobodyNS)
	// A lack of a CPU delays only a thread that was already chosen and woken. So the time without a CPU is a part of
	// the time since the thread was chosen. Subtract it, so that it does not count twice.
	s.HandoverNS = max(min(c.lateNS, s.NobodyNS)-s.NoCPUNS, 0)
	s.NobodyNS -= s.NoCPUNS + s.HandoverNS
	for k, p := range c.sums {
		s.Parts = append(s.Parts, ChainPart{Thread: k.thread, State: k.state, Method: k.method, Stack: p.stack, NS: p.ns})
	}
	sorting.By(s.Parts, func(x, y ChainPart) int {
		return cmp.Or(cmp.Compare(y.NS, x.NS), cmp.Compare(x.Thread, y.Thread), cmp.Compare(x.State, y.State), cmp.Compare(x.Method, y.Method))
	})
	return s
}
