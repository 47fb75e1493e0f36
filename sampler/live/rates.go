package live

import (
	"math"
	"sync/atomic"
)

// rates are those in use, in Hz: the ones asked for, or less of them where several processes share a budget.
type rates struct{ stack, lock atomic.Uint64 }

func (r *rates) set(stack, lock float64) {
	r.stack.Store(math.Float64bits(stack))
	r.lock.Store(math.Float64bits(lock))
}

// intervals are the nominal times between two ticks, in ns.
func (r *rates) intervals() (stackNS, lockNS float64) {
	return 1e9 / math.Float64frombits(r.stack.Load()), 1e9 / math.Float64frombits(r.lock.Load())
}
