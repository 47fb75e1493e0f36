package pace

import (
	"math"
	"sync/atomic"
)

// Rates are the rates of ticks in use, in Hz. They are lower than the requested rates if several processes share a
// budget.
type Rates struct{ stack, lock atomic.Uint64 }

// Set sets both rates, in Hz.
func (r *Rates) Set(stack, lock float64) {
	r.stack.Store(math.Float64bits(stack))
	r.lock.Store(math.Float64bits(lock))
}

// Intervals returns the times between two ticks at these rates, without jitter, in ns.
func (r *Rates) Intervals() (stackNS, lockNS float64) {
	return 1e9 / math.Float64frombits(r.stack.Load()), 1e9 / math.Float64frombits(r.lock.Load())
}
