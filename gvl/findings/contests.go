package findings

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// contestLook is one sample of a lock: its holder, and how often at least a waiting thread had been woken since the
// last sample and went on waiting. Each time the lock had been released.
type contestLook struct {
	atNS   int64
	holder sampler.ThreadID
	vain   int64
}

// contestant is a thread that waits: since when, the number of the first sample, and its turns on a CPU
// (sampler.Kernel.Turns).
type contestant struct {
	sinceNS, sample, turns int64
}

// contest is a lock that threads wait for: which thread gets it, and whether the others are woken in vain.
type contest struct {
	object uint64
	looks  [gateLooks]contestLook
	next   int
	lastNS int64
	// waits are the waiting threads. heldNS is when each thread last had the lock.
	waits  map[sampler.ThreadID]contestant
	heldNS map[sampler.ThreadID]int64
}

// contests follows the locks that threads wait for.
type contests struct {
	list   []*contest
	nextNS int64
	// sample counts the samples.
	sample int64
}

// maxContests bounds the locks that are followed at a time, maxContestants the threads of each.
const (
	maxContests    = 32
	maxContestants = 4096
)

func (c *contests) find(object uint64) *contest {
	for _, x := range c.list {
		if x.object == object {
			return x
		}
	}
	return nil
}

// look adds the waiting threads of a sample. If pauses is true, each sample stops the program, so turns on a CPU
// prove nothing.
func (c *contests) look(now int64, s *sampler.Sample, states []gvl.ThreadState, pauses bool) {
	c.sample++
	if s.Depth != sampler.StackTick {
		return // turns are read at stack ticks
	}
	next := now >= c.nextNS
	if next {
		c.nextNS = now + gateLookNS
	}
	for i := range states {
		ts := &states[i]
		if ts.State != gvl.Lock || ts.Detail.Object == 0 {
			continue
		}
		x := c.find(ts.Detail.Object)
		if x == nil {
			if len(c.list) >= maxContests {
				continue
			}
			x = &contest{object: ts.Detail.Object, waits: make(map[sampler.ThreadID]contestant), heldNS: make(map[sampler.ThreadID]int64)}
			c.list = append(c.list, x)
		}
		if next && x.lastNS != now || x.lastNS == 0 {
			if len(x.waits) > maxContestants || len(x.heldNS) > maxContestants {
				clear(x.waits)
				clear(x.heldNS)
			}
			x.next = (x.next + 1) % len(x.looks)
			x.looks[x.next], x.lastNS = contestLook{atNS: now}, now
		}
		l := &x.looks[x.next]
		if h := ts.Detail.Holder; h != 0 {
			l.holder = h
			x.heldNS[h] = now
		}
		was, turns := x.waits[ts.Thread], s.Threads[i].Kernel.Turns
		if was.sinceNS != ts.SinceNS {
			was = contestant{sinceNS: ts.SinceNS, sample: c.sample}
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
	kept := c.list[:0]
	for _, x := range c.list {
		if now-x.lastNS <= findingsWindowNS {
			kept = append(kept, x)
		}
	}
	clear(c.list[len(kept):])
	c.list = kept
}

// starved reports whether a thread has waited all the time since its wait began: it was seen nowhere else in as many
// samples as would show a thread that had the lock for a hundredth of the time.
func (c *contests) starved(x *contest, ts *gvl.ThreadState) bool {
	was, ok := x.waits[ts.Thread]
	return ok && ts.State == gvl.Lock && ts.Detail.Object == x.object && was.sinceNS == ts.SinceNS && c.sample-was.sample >= starvedSamples &&
		x.heldNS[ts.Thread] <= ts.SinceNS
}

// starvedSamples is how many samples must have seen a thread waiting and nowhere else. They miss a thread that is
// elsewhere for a hundredth of the time once in 20 times.
const starvedSamples = 300

// winner returns the thread with the lock in most samples of the window, and its part of the samples with a holder.
// vain is how often at least other threads were woken in vain. looks counts the samples with a waiting thread.
func (x *contest) winner(now int64) (id sampler.ThreadID, share float64, vain int64, looks int) {
	times := make(map[sampler.ThreadID]int64)
	held := int64(0)
	for _, l := range x.looks {
		if l.atNS <= now-findingsWindowNS {
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
