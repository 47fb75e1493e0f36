package ruby

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/attach"
)

// plan lists the memory ranges that one system call reads, in this order, and the purpose of each part. Making a plan
// reads no memory, with one exception: if the list of ractors was just read again, making the plan reads the addresses
// of the ractors' counters.
type plan struct {
	ranges []attach.Range
	parts  []part
	// needed is how many ranges at the front of the plan must be read. If one of them cannot be read, the tick fails.
	needed int
}

// part is a sequence of ranges in a plan that are read for one purpose.
type part struct {
	what purpose
	// thread is the thread for which the part is read. It is nil if the part is not for a single thread.
	thread *thread
	// from is the index of the part's first range. The part ends where the next part begins.
	from int
}

// purpose says what a part of a plan is read for.
type purpose uint8

const (
	forSchedulers    purpose = iota // the list of ractors, and each ractor's scheduler and list of threads
	forThreads                      // structs of threads
	forOwners                       // the owners of the GVLs, read a second time
	forHolder                       // the holder of the Mutex that a thread waits for
	forCounters                     // the collector's flags and counters
	forCountersAgain                // the counters, a second time
	forStack                        // a thread's stack
	forWork                         // the work of a thread
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

// String lists the parts of the plan, a line for each.
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
