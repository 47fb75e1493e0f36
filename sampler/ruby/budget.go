package ruby

import (
	"errors"
	"sync/atomic"
	"time"
)

// tickBudget is how long a tick may take, in ns: of what it has not read by then, threads' stacks, names and what they
// wait for, it reads no more. The one that it is at is read to its end: a tenth of a second of a stack whose every name
// is new. What was left out has its turn first in the next tick, and counts as a failed read.
const tickBudget = int64(250 * time.Millisecond)

// errStopped: the reading was told to end.
var errStopped = errors.New("the reading was ended")

// budget says when a tick is over.
type budget struct {
	endNS   int64
	stopped atomic.Bool
	// from is the place, among the threads of a tick, of the one whose stack is looked at first; cut tells that the
	// tick under way has left something out.
	from int
	cut  bool
}

// Stop ends the tick under way, within some reads of memory, and lets no other begin: they return an error. It may be
// called from any goroutine.
func (r *Reader) Stop() { r.budget.stopped.Store(true) }

// Resume takes Stop back.
func (r *Reader) Resume() { r.budget.stopped.Store(false) }

// begin starts the time of a tick.
func (r *Reader) begin() { r.budget.endNS, r.budget.cut = r.now()+tickBudget, false }

// over reports whether the tick has used up its time, or was told to end.
func (r *Reader) over() bool {
	if !r.budget.cut && (r.budget.stopped.Load() || r.now() > r.budget.endNS) {
		r.budget.cut = true
	}
	return r.budget.cut
}
