// Package gates finds gates: methods that let only some threads in, so that others wait until one has left. An example
// is Pool#with.
package gates

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/doorways"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxGates limits how many methods are followed at a time.
	maxGates = 16
	// EveryNS is the interval between two counts of the threads that wait at gates and of the threads inside, in ns.
	// windowNS is the age, in ns, up to which counts are used. It equals the length of the window of findings.
	EveryNS  = 100e6
	windowNS = 10e9
	// maxCounts is the largest number of counts in the window.
	maxCounts = windowNS / EveryNS
)

// These thresholds distinguish a gate from a method in which workers wait for jobs.
const (
	// minCounts is how many counts with a waiting thread are needed to judge a method.
	minCounts = 20
	// minChanges is how many counts must show a thread inside the method that was not inside at the count before.
	minChanges = 3
	// fewerShare is a share of counts. A gate with waiting threads is full, so at most this share of counts may show
	// fewer threads inside than the gate lets in. A few such counts are normal, because a woken thread without a CPU is
	// not inside yet. fewerSeenShare replaces fewerShare if threads were seen to leave the method for good. Threads in
	// a worker's loop never do so.
	fewerShare, fewerSeenShare = .02, .15
	// minLeft is how many times threads must have left the method before ddtop may treat it as a gate.
	minLeft = 3
	// minVain is how many times a waiting thread must have been woken in vain: an object was put back, and another
	// thread took it first. This distinguishes a gate from a pool of workers. A worker that waits for a job is not
	// woken while there is no job.
	minVain = 5
	// moreShare is a share of counts. At most this share of counts may show more threads inside than the gate lets in.
	// A few such counts are normal, because threads are on their way in or out.
	moreShare = .25
)

// Thread is the stack of a thread in a sample, with its flags. The stack is zero if nothing is known.
type Thread struct {
	Stack sampler.StackID
	Flags stackkind.Flags
}

// count has the threads that wait at a gate, and the threads inside, at one time.
type count struct {
	atNS            int64
	waiting, inside int32
	// changed is set if a thread is inside that was not inside at the last count. left is the number of threads that
	// have left the method since the last count. vain is the number of waiting threads that were woken but had to wait
	// again.
	changed    bool
	left, vain int32
}

// lastWait describes the wait of a thread at the last count. movedNS is when the thread last had a CPU. deadlineNS is
// when a time limit ends its wait (see ThreadState).
type lastWait struct{ movedNS, deadlineNS int64 }

// A Gate is a method in which threads wait, for a Queue or a ConditionVariable, until another thread has left the
// method. An example is Pool#with: it takes a connection, calls a block and puts the connection back. Only stacks show
// which threads wait and which are inside (in the examples, the innermost frame comes first):
//
//   - A thread waits in the method if the method runs no block that is written in a method further out: Queue#pop,
//     Pool#with, Shop#order.
//   - A thread is inside if the method runs such a block: IO#read, block in Shop#order, Pool#with, Shop#order.
//
// A worker that takes jobs from a queue and yields each job to a block has the same stacks, but its method is no gate.
// The number of threads inside distinguishes the two. While threads wait for a pool, this number stays the same. The
// number of workers inside is the number of jobs, which changes while other workers wait.
type Gate struct {
	ID     doorways.ID
	counts [maxCounts]count
	next   int
	// inside has the threads that are inside, each with the time at which it got inside, CLOCK_MONOTONIC in ns. known
	// has the threads that were seen waiting or inside.
	inside map[sampler.ThreadID]int64
	known  map[sampler.ThreadID]lastWait
	// serving is set if all threads that waited in the last count were in requests or jobs.
	serving bool
	// Nested is set if a thread that is inside waits to enter again, or waits for the end of a thread that waits to
	// enter.
	Nested bool
	lastNS int64
	// Open is set if the counts have shown that the method is a gate. Size is how many threads it lets in.
	Open bool
	Size int
}

// Gates follows methods in which threads wait for other threads, and finds out which of them are gates.
type Gates struct {
	*doorways.Stacks
	list   []*Gate
	nextNS int64
	// open is the number of methods in list that are gates.
	open int
}

// New returns Gates for samples whose IDs point into dict.
func New(dict *sampler.Dictionary) *Gates {
	return &Gates{Stacks: doorways.New(dict)}
}

// List returns the methods that are followed, whether they are gates or not. The caller must not change the list.
func (g *Gates) List() []*Gate { return g.list }

// Closed returns the gate at which a thread with this state and stack waits. It returns nil if the thread does not wait
// at a gate.
func (g *Gates) Closed(s gvl.State, d *gvl.Detail, stack sampler.StackID) *Gate {
	if g.open == 0 || stack == 0 || !gvl.InQueue(s, d) {
		return nil
	}
	for _, x := range g.list {
		if x.Open && slices.Contains(g.Of(stack).Near, x.ID) {
			return x
		}
	}
	return nil
}

// Count counts the threads at each gate if EveryNS has passed since the last count. It reports whether a method has
// become a gate, or has stopped being one. threadAt returns the Thread for an index of states.
func (g *Gates) Count(now int64, states []gvl.ThreadState, threadAt func(int) Thread) bool {
	if !g.Known() || now < g.nextNS {
		return false
	}
	g.nextNS = now + EveryNS
	forgot := g.forget()
	waiting := make(map[doorways.ID]int)
	for i := range states {
		if t := threadAt(i); t.Stack != 0 && t.Flags&stackkind.Idle == 0 && gvl.InQueue(states[i].State, &states[i].Detail) {
			for _, id := range g.Of(t.Stack).Near {
				waiting[id]++
			}
		}
	}
	through := make(map[doorways.ID]bool)
	if len(waiting) > 0 {
		for i := range states {
			if t := threadAt(i); t.Stack != 0 {
				for _, id := range g.Of(t.Stack).Through {
					through[id] = through[id] || waiting[id] > 1
				}
			}
		}
	}
	for id, is := range through {
		if is && len(g.list) < maxGates && g.find(id) == nil {
			g.list = append(g.list, &Gate{ID: id, lastNS: now, inside: make(map[sampler.ThreadID]int64), known: make(map[sampler.ThreadID]lastWait)})
		}
	}
	kept, open, changed := g.list[:0], 0, false
	for _, x := range g.list {
		if waiting[x.ID] > 0 {
			x.lastNS = now
		}
		if now-x.lastNS <= windowNS {
			was := x.Open
			g.countAt(x, now, states, threadAt)
			changed = changed || x.Open != was
			kept = append(kept, x)
		} else {
			changed, x.Open = changed || x.Open, false
		}
		if x.Open {
			open++
		}
	}
	clear(g.list[len(kept):])
	g.list, g.open = kept, open
	return changed || forgot
}

// forget drops all stacks and methods if there are too many, and reports whether a gate was among them. Methods then
// get new IDs, so IDs must not be kept from one count to the next.
func (g *Gates) forget() bool {
	if !g.Forget(stackkind.MaxClasses) {
		return false
	}
	was := g.open > 0
	g.list, g.open = nil, 0
	return was
}

func (g *Gates) find(id doorways.ID) *Gate {
	for _, x := range g.list {
		if x.ID == id {
			return x
		}
	}
	return nil
}

// countAt counts the threads at one method.
func (g *Gates) countAt(x *Gate, now int64, states []gvl.ThreadState, threadAt func(int) Thread) {
	l := count{atNS: now}
	x.serving, x.Nested = true, false
	inside := make(map[sampler.ThreadID]int64, len(x.inside))
	waiters, joined := make(map[sampler.ThreadID]bool), []sampler.ThreadID(nil)
	changed := false
	for i := range states {
		ts, t := &states[i], threadAt(i)
		if t.Stack == 0 {
			continue
		}
		s := g.Of(t.Stack)
		near, through := slices.Contains(s.Near, x.ID), slices.Contains(s.Through, x.ID)
		waits := near && gvl.InQueue(ts.State, &ts.Detail)
		switch {
		case waits:
			l.waiting++
			x.serving = x.serving && t.Flags&(stackkind.Server|stackkind.Serving) != 0
			x.Nested = x.Nested || through
			waiters[ts.Thread] = true
		case !near && !through:
			if _, ok := x.known[ts.Thread]; ok {
				l.left++
				delete(x.known, ts.Thread)
			}
			continue
		}
		last := lastWait{}
		if waits {
			last = lastWait{ts.MovedNS, ts.Detail.DeadlineNS}
			// A thread that got a CPU but still waits was woken in vain, unless its timeout woke it. If a thread was
			// not known at the last count, ddtop does not know its timeout. So such a thread is not counted.
			if was, ok := x.known[ts.Thread]; ok && ts.MovedNS > max(was.movedNS, ts.SinceNS) && (was.deadlineNS == 0 || ts.MovedNS < was.deadlineNS) {
				l.vain++
			}
		}
		x.known[ts.Thread] = last
		if through || !waits {
			l.inside++
			since, was := x.inside[ts.Thread]
			if !was {
				since, changed = now, true
			}
			inside[ts.Thread] = since
			if ts.State == gvl.Parked && ts.Detail.Joined != 0 {
				joined = append(joined, ts.Detail.Joined)
			}
		}
	}
	x.Nested = x.Nested || slices.ContainsFunc(joined, func(id sampler.ThreadID) bool { return waiters[id] })
	l.changed = changed && len(x.inside) > 0
	x.inside = inside
	if len(x.known) > 2*len(states)+maxCounts {
		clear(x.known)
	}
	x.counts[x.next] = l
	x.next = (x.next + 1) % len(x.counts)
	x.judge(now)
}

// judge finds out whether the method is a gate, and how many threads it lets in.
func (x *Gate) judge(now int64) {
	sizes := make(map[int32]int)
	// Use only the counts in the window. Over a longer time, such as an hour, workers with few jobs look like a gate,
	// because they also come and leave.
	n, changed, left, vain := 0, 0, 0, 0
	for _, l := range x.counts {
		if l.atNS <= now-windowNS {
			continue
		}
		if l.waiting > 0 {
			sizes[l.inside]++
			n++
		}
		if l.changed {
			changed++
		}
		left += int(l.left)
		vain += int(l.vain)
	}
	size, most := topCount(sizes)
	fewer, more := 0, n-most
	for k, times := range sizes {
		if k < size {
			fewer += times
			more -= times
		}
	}
	allowed, allowedMore, moves := fewerShare, moreShare, changed >= minChanges || left >= minLeft || vain >= minVain
	if left >= minLeft {
		allowed = fewerSeenShare
	}
	if x.Open { // a known gate needs less evidence to stay a gate, so that its finding does not flicker
		allowed, allowedMore, moves = fewerSeenShare, 2*moreShare, moves || changed+left+vain > 0
	}
	x.Size = int(size)
	x.Open = n >= minCounts && size > 0 && float64(more) <= allowedMore*float64(n) &&
		(x.serving || x.Nested || moves && fewer <= int(allowed*float64(n))+1)
}

// topCount returns the key with the highest count, and this count. If several keys have this count, it returns the
// largest key.
func topCount(counts map[int32]int) (value int32, times int) {
	for v, n := range counts {
		if n > times || n == times && v > value {
			value, times = v, n
		}
	}
	return value, times
}

// Waiting returns the mean number of waiting threads in the window.
func (x *Gate) Waiting(now int64) float64 {
	sum, n := 0, 0
	for _, l := range x.counts {
		if l.atNS > now-windowNS {
			sum += int(l.waiting)
			n++
		}
	}
	return gvl.Ratio(int64(sum), int64(n))
}

// InsideNS returns for how long all counts have shown a thread inside, in ns. The thread may have left and come back
// between two counts. InsideNS is zero if the last count did not show the thread inside.
func (x *Gate) InsideNS(now int64, id sampler.ThreadID) int64 {
	if at, ok := x.inside[id]; ok {
		return now - at
	}
	return 0
}

// Inside returns the threads that are inside. The thread that has been inside longest comes first. Threads that are
// entering or leaving are left out, because they hold no object.
func (g *Gates) Inside(x *Gate, now int64, states []gvl.ThreadState, threadAt func(int) Thread) []sampler.ThreadID {
	ids := make([]sampler.ThreadID, 0, len(x.inside))
	for i := range states {
		if t := threadAt(i); t.Stack != 0 && slices.Contains(g.Of(t.Stack).Through, x.ID) {
			ids = append(ids, states[i].Thread)
		}
	}
	slices.SortFunc(ids, func(a, b sampler.ThreadID) int {
		return cmp.Or(cmp.Compare(x.InsideNS(now, b), x.InsideNS(now, a)), cmp.Compare(a, b))
	})
	return ids
}
