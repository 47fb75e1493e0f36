package ruby

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

// tickBudget is how long a tick may take, in ns: of what it has not read by then, threads' stacks, names and what they
// wait for, it reads no more. The one that it is at is read to its end: a tenth of a second of a stack whose every name
// is new. What was left out has its turn first in the next tick, and counts as a failed read.
const tickBudget = int64(250 * time.Millisecond)

// maxWalkBudget bounds the time of a tick until it has walked the lists of ractors and threads, in ns. The first limit
// is tickBudget, which is enough for all threads if a CPU is free. It doubles after each walk that did not end in time.
const maxWalkBudget = 16 * tickBudget

var (
	// errLongWalk: the walk over the lists was not through in time.
	errLongWalk = errors.New("listing its threads takes too long")
)

// budget says when a tick is over.
type budget struct {
	endNS int64
	// walkNS is the time for the walks of a tick, in ns, if that is more than tickBudget. walkEndNS is when the walks
	// of this tick must end.
	walkNS, walkEndNS int64
	stopped           atomic.Bool
	// from is the place, among the threads of a tick, of the first thread whose stack is read. cut: this tick has left
	// something out.
	from int
	cut  bool
	// spent: something was read or decoded since the clock was looked at.
	spent bool
}

// Stop ends the tick under way, within some reads of memory, and lets no other begin: they return an error. It may be
// called from any goroutine.
func (r *target) Stop() { r.budget.stopped.Store(true) }

// Resume takes Stop back.
func (r *target) Resume() { r.budget.stopped.Store(false) }

// Cut reports whether the last tick has used up its time: stacks, and of others who resumed their fibers and what they
// wait for, can be missing in its sample. It belongs to who calls Read.
func (r *target) Cut() bool { return r.budget.cut }

// begin starts the time of a tick.
func (r *target) begin() {
	now := r.now()
	r.budget.endNS, r.budget.cut, r.budget.spent = now+tickBudget, false, true
	r.budget.walkEndNS = now + max(tickBudget, r.budget.walkNS)
}

// walkOver is the error of a walk over the lists that is to end: the tick was told to, or the walks' time is up.
func (r *target) walkOver() error {
	switch {
	case r.budget.stopped.Load():
		return view.ErrStopped
	case r.now() > r.budget.walkEndNS:
		return errLongWalk
	}
	return nil
}

// over reports whether the tick has used up its time, or was told to end.
func (r *target) over() bool {
	r.budget.spent = false
	if !r.budget.cut && (r.budget.stopped.Load() || r.now() > r.budget.endNS) {
		r.budget.cut = true
	}
	return r.budget.cut
}
