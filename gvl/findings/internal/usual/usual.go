// Package usual finds the stack at which a thread spends nearly all its time.
package usual

import "github.com/ddtop/ddtop/sampler"

const (
	// share is a part of a thread's time. A thread must spend at least this part at a stack for the stack to be its
	// usual one.
	share = .9
	// Wait is a factor for the threshold of http_slow. If a thread has stayed at its usual stack for Wait times this
	// threshold, ddtop assumes that the thread reads a stream. No single call takes so long.
	Wait = 2
)

// Stack finds the stack at which a thread spends nearly all its time. For example, the reader of a stream spends its
// time in the read for the next message. To save memory, Stack keeps only one candidate: the only stack that can have
// more than half of the time (Boyer and Moore's majority vote).
type Stack struct {
	stack sampler.StackID
	// leadNS is the result of the majority vote: how much longer the thread was at the candidate (the field stack) than
	// at all other stacks. seenNS is the sum of all stays.
	leadNS, seenNS int64
	// LongestNS is the length of the longest stay at the candidate stack that has ended.
	LongestNS int64
}

// Stayed adds a stay at a stack after the stay has ended. ns is its length.
func (u *Stack) Stayed(stack sampler.StackID, ns int64) {
	u.seenNS += ns
	switch {
	case stack == u.stack:
		u.leadNS += ns
		u.LongestNS = max(u.LongestNS, ns)
	case u.leadNS >= ns:
		u.leadNS -= ns
	default:
		*u = Stack{stack: stack, leadNS: ns - u.leadNS, seenNS: u.seenNS, LongestNS: ns}
	}
}

// Matches reports whether a stack is the thread's usual one.
func (u *Stack) Matches(stack sampler.StackID) bool {
	return stack != 0 && stack == u.stack && float64(u.leadNS) >= (2*share-1)*float64(u.seenNS)
}
