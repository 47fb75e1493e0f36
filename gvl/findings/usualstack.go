package findings

import "github.com/ddtop/ddtop/sampler"

const (
	// usualShare is the part of its time at one stack from which on that is a thread's usual one.
	usualShare = .9
	// usualWait is the least time that a reader has waited at its usual stack before, as a multiple of http_slow's
	// waits. No call takes so long.
	usualWait = 2
)

// usualStack finds the stack at which a thread spends nearly all its time, like a stream's reader in the read for the
// next message. It follows the stack that can have more than half of the time (Boyer and Moore's vote).
type usualStack struct {
	stack sampler.StackID
	// leadNS is how much longer the thread was at stack than elsewhere. seenNS is all time.
	leadNS, seenNS int64
	// longestNS is the longest stay at stack that has ended.
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

// matches reports whether a stack is the thread's usual one.
func (u *usualStack) matches(stack sampler.StackID) bool {
	return stack != 0 && stack == u.stack && float64(u.leadNS) >= (2*usualShare-1)*float64(u.seenNS)
}
