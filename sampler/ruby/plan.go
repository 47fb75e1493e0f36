package ruby

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/attach"
)

// plan is what one call reads of the target: the ranges, in the order in which they are read, and what each part of
// them is for. To make one reads nothing, but where ractors count objects after a walk. What has come back is in the
// buffers of the ranges.
type plan struct {
	ranges []attach.Range
	parts  []part
	// needed is how many ranges, from the first one on, a tick can't do without.
	needed int
}

// part is some of a plan's ranges, side by side.
type part struct {
	what purpose
	// thread is whose. It is nil if it is for no thread.
	thread *thread
	// from is the index of the first one; the last one is in front of the next part.
	from int
}

// purpose is what a part of a plan is for.
type purpose uint8

const (
	forSchedulers    purpose = iota // the list of ractors and the head of each, with its scheduler and its list of threads
	forThreads                      // structs of threads
	forOwners                       // the owners of the GVLs, once more
	forHolder                       // who holds the Mutex that a thread waits for
	forCounters                     // the collector's flags and counters
	forCountersAgain                // the counters behind what they are charged to
	forStack                        // a thread's stack
	forWork                         // what said for whom a thread works
	purposes
)

func (p purpose) String() string {
	return [purposes]string{"schedulers", "threads", "owners", "holder", "counters", "counters again", "stack", "work"}[p]
}

func (p *plan) reset() { p.ranges, p.parts, p.needed = p.ranges[:0], p.parts[:0], 0 }

func (p *plan) begin(what purpose, t *thread) {
	p.parts = append(p.parts, part{what, t, len(p.ranges)})
}

func (p *plan) add(addr attach.Address, buf []byte) {
	p.ranges = append(p.ranges, attach.Range{Addr: addr, Buf: buf})
}

func (p *plan) failed(from, to int) bool {
	for i := range p.ranges[from:to] {
		if p.ranges[from+i].Failed {
			return true
		}
	}
	return false
}

// String says what is read, a line for each part.
func (p *plan) String() string {
	var b strings.Builder
	for i, x := range p.parts {
		to := len(p.ranges)
		if i+1 < len(p.parts) {
			to = p.parts[i+1].from
		}
		bytes := 0
		for j := range p.ranges[x.from:to] {
			bytes += len(p.ranges[x.from+j].Buf)
		}
		fmt.Fprintf(&b, "%s: %d ranges, %d bytes", x.what, to-x.from, bytes)
		if x.thread != nil {
			fmt.Fprintf(&b, ", of thread %d", x.thread.id)
		}
		if x.what == forStack {
			fmt.Fprintf(&b, ": %s", &x.thread.stack.plan)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (r *target) readPlan(p *plan) error {
	calls, err := r.mem.ReadBatch(p.ranges)
	r.reads.Calls += uint64(calls)
	r.budget.spent = true
	return err
}
