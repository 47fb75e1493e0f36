package ruby

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// tickBudget is the time that a tick may take, in ns. After this time, the tick does not begin to read further stacks,
// names and reasons for waiting. It finishes the thread that it is reading, which takes up to 0.1 s if all its names
// are new. The next tick begins with the threads that were left out. Each of them counts as a failed read.
const tickBudget = int64(250 * time.Millisecond)

// maxWalkBudget is the highest limit for the time in which a tick walks over the lists of ractors and threads, in ns.
// The limit starts at tickBudget, which is enough if a CPU is free. It doubles after each walk that took too long.
const maxWalkBudget = 16 * tickBudget

// errLongWalk means that the walk over the lists of ractors and threads took too long.
var errLongWalk = errors.New("listing its threads takes too long")

// budget decides when a tick must end.
type budget struct {
	endNS int64
	// walkNS limits how long a tick may walk over the lists of threads and ractors, in ns. If tickBudget is longer,
	// tickBudget is the limit instead. walkEndNS is the time at which the walk of this tick must end.
	walkNS, walkEndNS int64
	stopped           atomic.Bool
	// from is the index of the thread with which this tick begins to read stacks. cut is true if this tick left
	// something out because its time was up.
	from int
	cut  bool
	// spent is true if the tick has read or decoded something since it last checked whether its time is up.
	spent bool
}

// Stop makes the tick that runs now return an error after its next few reads. Later ticks fail until Resume is called.
// Any goroutine may call Stop.
func (r *target) Stop() { r.budget.stopped.Store(true) }

// Resume undoes Stop.
func (r *target) Resume() { r.budget.stopped.Store(false) }

// Cut reports whether the time of the last tick ran out. If so, its sample may lack some stacks, including stacks of
// fibers that resumed others, and the reasons why threads wait. Only the goroutine that calls Read may call it.
func (r *target) Cut() bool { return r.budget.cut }

// begin sets the time limits of a new tick.
func (r *target) begin() {
	now := r.now()
	r.budget.endNS, r.budget.cut, r.budget.spent = now+tickBudget, false, true
	r.budget.walkEndNS = now + max(tickBudget, r.budget.walkNS)
}

// walkOver returns an error if a walk over the lists must end, because Stop was called or because the walk's time has
// run out.
func (r *target) walkOver() error {
	switch {
	case r.budget.stopped.Load():
		return view.ErrStopped
	case r.now() > r.budget.walkEndNS:
		return errLongWalk
	}
	return nil
}

// over reports whether the tick must end, because its time is up or because Stop was called.
func (r *target) over() bool {
	r.budget.spent = false
	if !r.budget.cut && (r.budget.stopped.Load() || r.now() > r.budget.endNS) {
		r.budget.cut = true
	}
	return r.budget.cut
}
