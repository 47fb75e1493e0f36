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

// maxWalkBudget is how long a tick may take at most, in ns, until it has walked the lists of ractors and threads:
// tickBudget, time enough for all that are followed where a CPU is to be had; and twice as long after each walk that
// was not through by then.
const maxWalkBudget = 16 * tickBudget

var (
	// errLongWalk: the walk over the lists was not through in time.
	errLongWalk = errors.New("listing its threads takes too long")
)

// budget says when a tick is over.
type budget struct {
	endNS int64
	// walkNS is how long the walks of a tick may take, in ns, if that is more than tickBudget; walkEndNS is when those
	// of the tick under way have to be through.
	walkNS, walkEndNS int64
	stopped           atomic.Bool
	// from is the place, among the threads of a tick, of the one whose stack is looked at first; cut says that the
	// tick under way has left something out.
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
