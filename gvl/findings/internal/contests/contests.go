// Package contests follows the locks that threads wait for. It finds out which thread gets a lock, and whether other
// threads are woken but do not get it.
package contests

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// EveryNS is the length, in ns, of the intervals into which a Contest divides time. A Contest adds up the samples
	// of each interval (type look). It ignores intervals older than windowNS, the length of the window of findings.
	EveryNS  = 100e6
	windowNS = 10e9
	// MinCounts is the smallest number of intervals with a waiting thread that a finding about a lock needs.
	MinCounts = 20
)

// look is what the samples of one interval show about a lock. vain is a lower bound of how often waiting threads were
// woken without getting the lock. When the lock is released, a waiting thread is woken. If another thread is faster,
// the woken thread does not get the lock.
type look struct {
	atNS   int64
	holder sampler.ThreadID
	vain   int64
}

// waiter is a thread that waits for the lock. sinceNS is when its wait began, and sample is the number of the first
// sample that shows this wait. turns is how often the thread has got a CPU, as the last sample of the wait shows
// (sampler.Kernel.Turns).
type waiter struct {
	sinceNS, sample, turns int64
}

// Contest is a lock that threads wait for. It has data about which thread gets the lock, and about threads that are
// woken but do not get it.
type Contest struct {
	Object uint64
	looks  [windowNS / EveryNS]look
	next   int
	lastNS int64
	// waits has the threads that wait now. heldNS is, for each thread, when it last had the lock.
	waits  map[sampler.ThreadID]waiter
	heldNS map[sampler.ThreadID]int64
}

// Contests follows the locks that threads wait for.
type Contests struct {
	List   []*Contest
	nextNS int64
	// sample counts the samples.
	sample int64
}

// maxContests limits the locks that are followed at a time. maxContestants limits the threads that are followed for
// each lock.
const (
	maxContests    = 32
	maxContestants = 4096
)

func (c *Contests) find(object uint64) *Contest {
	for _, x := range c.List {
		if x.Object == object {
			return x
		}
	}
	return nil
}

// Add adds the waiting threads of a sample. pauses is true if ddtop stops the program for each sample. Each thread then
// gets a CPU after each stop, so getting a CPU does not prove that a thread was woken for the lock.
func (c *Contests) Add(now int64, s *sampler.Sample, states []gvl.ThreadState, pauses bool) {
	c.sample++
	if s.Depth != sampler.StackTick {
		return // only samples with all stacks (stack ticks) show how often threads got a CPU
	}
	next := now >= c.nextNS
	if next {
		c.nextNS = now + EveryNS
	}
	for i := range states {
		ts := &states[i]
		if ts.State != gvl.Lock || ts.Detail.Object == 0 {
			continue
		}
		x := c.find(ts.Detail.Object)
		if x == nil {
			if len(c.List) >= maxContests {
				continue
			}
			x = &Contest{Object: ts.Detail.Object, waits: make(map[sampler.ThreadID]waiter), heldNS: make(map[sampler.ThreadID]int64)}
			c.List = append(c.List, x)
		}
		if next && x.lastNS != now || x.lastNS == 0 {
			if len(x.waits) > maxContestants || len(x.heldNS) > maxContestants {
				clear(x.waits)
				clear(x.heldNS)
			}
			x.next = (x.next + 1) % len(x.looks)
			x.looks[x.next], x.lastNS = look{atNS: now}, now
		}
		l := &x.looks[x.next]
		if h := ts.Detail.Holder; h != 0 {
			l.holder = h
			x.heldNS[h] = now
		}
		was, turns := x.waits[ts.Thread], s.Threads[i].Kernel.Turns
		if was.sinceNS != ts.SinceNS {
			was = waiter{sinceNS: ts.SinceNS, sample: c.sample}
		}
		if was.turns != 0 && turns > was.turns && !pauses {
			l.vain++
		}
		was.turns = turns
		x.waits[ts.Thread] = was
	}
	if !next {
		return
	}
	kept := c.List[:0]
	for _, x := range c.List {
		if now-x.lastNS <= windowNS {
			kept = append(kept, x)
		}
	}
	clear(c.List[len(kept):])
	c.List = kept
}

// Starved reports whether a thread has not had the lock since its wait began. Samples do not show this directly. So
// Starved needs at least starvedSamples samples since the wait began. If a thread had the lock for a hundredth of the
// time, one of so many samples would almost certainly show this.
func (c *Contests) Starved(x *Contest, ts *gvl.ThreadState) bool {
	was, ok := x.waits[ts.Thread]
	return ok && ts.State == gvl.Lock && ts.Detail.Object == x.Object && was.sinceNS == ts.SinceNS && c.sample-was.sample >= starvedSamples &&
		x.heldNS[ts.Thread] <= ts.SinceNS
}

// starvedSamples is how many samples must show a thread waiting for a lock before ddtop believes that it never gets the
// lock. If a thread had the lock for 1 % of the time, 300 samples would all miss this in one case of 20.
const starvedSamples = 300

// Winner returns the thread that had the lock in most intervals of the window. share is the number of these intervals,
// divided by the number of intervals in which any thread had the lock. vain is a lower bound of how often threads were
// woken without getting the lock. looks is the number of intervals with a waiting thread.
func (x *Contest) Winner(now int64) (id sampler.ThreadID, share float64, vain int64, looks int) {
	times := make(map[sampler.ThreadID]int64)
	held := int64(0)
	for _, l := range x.looks {
		if l.atNS <= now-windowNS {
			continue
		}
		looks++
		vain += l.vain
		if l.holder != 0 {
			times[l.holder]++
			held++
		}
	}
	id, n := gvl.TopKey(times)
	return id, gvl.Ratio(n, held), vain, looks
}
