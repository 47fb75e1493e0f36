package gvl

import "github.com/ddtop/ddtop/sampler"

const (
	// homeShare is the part of the time that a thread was seen at one stack from which on it is at home there.
	homeShare = .9
	// homeWait is how many of http_slow's waits a reader has waited at home before, and gone on: no call takes so long.
	homeWait = 2
)

// home is where a thread spends nearly all its time: a stream's reader at the read for the next message, to which it comes
// back from each. It follows one stack, the one that can have more than half of the time (Boyer and Moore's vote).
type home struct {
	stack sampler.StackID
	// leadNS is how much longer the thread was at stack than elsewhere, as far as it is known; seenNS all time.
	leadNS, seenNS int64
	// longestNS is the longest stay at stack that came to an end.
	longestNS int64
}

// stayed adds a stay at a stack that has ended.
func (h *home) stayed(stack sampler.StackID, ns int64) {
	h.seenNS += ns
	switch {
	case stack == h.stack:
		h.leadNS += ns
		h.longestNS = max(h.longestNS, ns)
	case h.leadNS >= ns:
		h.leadNS -= ns
	default:
		*h = home{stack: stack, leadNS: ns - h.leadNS, seenNS: h.seenNS, longestNS: ns}
	}
}

// is reports whether a stack is the thread's home, by the stays that have ended.
func (h *home) is(stack sampler.StackID) bool {
	return stack != 0 && stack == h.stack && float64(h.leadNS) >= (2*homeShare-1)*float64(h.seenNS)
}
