package findings

import "github.com/ddtop/ddtop/sampler"

const (
	// usualShare is the part of the time that a thread was seen at one stack from which on that is its usual one.
	usualShare = .9
	// usualWait is how many of http_slow's waits a reader has waited at its usual stack before, and gone on: no call takes so
	// long.
	usualWait = 2
)

// usualStack finds the stack at which a thread spends nearly all its time: a stream's reader that of the read for the next
// message, to which it comes back from each. It follows one stack, the one that can have more than half of the time (Boyer
// and Moore's vote).
type usualStack struct {
	stack sampler.StackID
	// leadNS is how much longer the thread was at stack than elsewhere, as far as it is known; seenNS all time.
	leadNS, seenNS int64
	// longestNS is the longest stay at stack that came to an end.
	longestNS int64
}

// stayed adds a stay at a stack that has ended.
func (u *usualStack) stayed(stack sampler.StackID, ns int64) {
	u.seenNS += ns
	switch {
	case stack == u.stack:
		u.leadNS += ns
		u.longestNS = max(u.longestNS, ns)
	case u.leadNS >= ns:
		u.leadNS -= ns
	default:
		*u = usualStack{stack: stack, leadNS: ns - u.leadNS, seenNS: u.seenNS, longestNS: ns}
	}
}

// matches reports whether a stack is the thread's usual one, by the stays that have ended.
func (u *usualStack) matches(stack sampler.StackID) bool {
	return stack != 0 && stack == u.stack && float64(u.leadNS) >= (2*usualShare-1)*float64(u.seenNS)
}
