package findings

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/doorways"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/sampler"
)

// A gate is a method in which threads wait (for a Queue or a ConditionVariable) until another one has come out of it: Pool#with, that
// takes a connection, calls the block that it was given and puts the connection back. What is known of one comes from stacks alone:
//
//   - A thread waits in it when no code inside of the method calls back: Queue#pop, Pool#with, Shop#order.
//   - A thread is inside when the method has called back into a method further out: IO#read, block in Shop#order, Pool#with, Shop#order.
//
// Of a pool with waiters there are always as many inside. A worker that takes its jobs so ("while job = queue.pop; yield job; end")
// has the same stacks; but as many are inside as there are jobs, and that changes while others wait.

const (
	// maxGates limits the methods that are followed at a time.
	maxGates = 16
	// gateLookNS is the interval at which waiting threads and threads inside are counted.
	gateLookNS = 100e6
	// gateLooks is the number of counts in the window.
	gateLooks = findingsWindowNS / gateLookNS
)

// The thresholds that distinguish a gate from the method in which workers wait for jobs.
const (
	// gateMinLooks is the least number of counts with a waiting thread.
	gateMinLooks = 20
	// gateChanges is the least number of changes of the threads inside.
	gateChanges = 3
	// gateFewer is the part of the counts that may have fewer inside than there is room for: a woken thread without a
	// CPU is not inside yet. gateFewerSeen is that part if threads have left the method for good. A worker's loop is
	// never left.
	gateFewer, gateFewerSeen = .02, .15
	// gateLeft is the least number of times that a thread left it.
	gateLeft = 3
	// gateVain is the least number of times that a waiting thread was woken in vain: something was put back, and
	// another thread was faster. A thread that waits for a job is not woken while there is none.
	gateVain = 5
	// gateMore is the part of the counts that may have more threads inside, on their way in or out.
	gateMore = .25
)

// gateLook is one count of the threads that wait and of the threads inside.
type gateLook struct {
	atNS            int64
	waiting, inside int32
	// changed is set if another thread was inside than before. left is how many had left, vain how many waiting threads
	// had been woken and went on waiting.
	changed    bool
	left, vain int32
}

// lastWait is when a waiting thread last had a CPU, and when its wait would have ended by itself (ThreadState).
type lastWait struct{ movedNS, deadlineNS int64 }

// gate is the state of one method.
type gate struct {
	id    doorways.ID
	looks [gateLooks]gateLook
	next  int
	// inside are the threads inside, since when. known are the threads that were seen waiting or inside.
	inside map[sampler.ThreadID]int64
	known  map[sampler.ThreadID]lastWait
	// serving is set if all threads that waited in the last count were in requests or jobs. nested is set if a thread
	// inside waited for a second turn, or for the end of a thread that waited.
	serving, nested bool
	lastNS          int64
	// open is set if the method is known to be a gate. size is how many threads it lets in.
	open bool
	size int
}

// gates follows the methods in which threads wait for each other.
type gates struct {
	*doorways.Stacks
	list   []*gate
	nextNS int64
	// open is the number of gates in the list.
	open int
}

func newGates(dict *sampler.Dictionary) *gates {
	return &gates{Stacks: doorways.New(dict)}
}

// closed returns the gate at which a thread waits, or nil.
func (g *gates) closed(s gvl.State, d *gvl.Detail, stack sampler.StackID) *gate {
	if g.open == 0 || stack == 0 || !gvl.InQueue(s, d) {
		return nil
	}
	for _, x := range g.list {
		if x.open && slices.Contains(g.Of(stack).Near, x.id) {
			return x
		}
	}
	return nil
}

// look counts the threads at each gate, at intervals, and reports whether the set of gates has changed.
func (g *gates) look(now int64, states []gvl.ThreadState, slots []int, threads []watch) bool {
	if !g.Known() || now < g.nextNS {
		return false
	}
	g.nextNS = now + gateLookNS
	forgot := g.forget()
	waiting := make(map[doorways.ID]int)
	for i := range states {
		if w := watched(threads, slots[i]); w != nil && w.stack != 0 && w.flags&stackkind.Idle == 0 && gvl.InQueue(states[i].State, &states[i].Detail) {
			for _, id := range g.Of(w.stack).Near {
				waiting[id]++
			}
		}
	}
	through := make(map[doorways.ID]bool)
	if len(waiting) > 0 {
		for i := range states {
			if w := watched(threads, slots[i]); w != nil && w.stack != 0 {
				for _, id := range g.Of(w.stack).Through {
					through[id] = through[id] || waiting[id] > 1
				}
			}
		}
	}
	for id, is := range through {
		if is && len(g.list) < maxGates && g.find(id) == nil {
			g.list = append(g.list, &gate{id: id, lastNS: now, inside: make(map[sampler.ThreadID]int64), known: make(map[sampler.ThreadID]lastWait)})
		}
	}
	kept, open, changed := g.list[:0], 0, false
	for _, x := range g.list {
		if waiting[x.id] > 0 {
			x.lastNS = now
		}
		if now-x.lastNS <= findingsWindowNS {
			was := x.open
			g.one(x, now, states, slots, threads)
			changed = changed || x.open != was
			kept = append(kept, x)
		} else {
			changed, x.open = changed || x.open, false
		}
		if x.open {
			open++
		}
	}
	clear(g.list[len(kept):])
	g.list, g.open = kept, open
	return changed || forgot
}

// forget drops all stacks and methods if there are too many, and reports whether a gate was among them. Methods get new
// numbers then, so no number may be kept from one count to the next.
func (g *gates) forget() bool {
	if !g.Forget(stackkind.MaxClasses) {
		return false
	}
	was := g.open > 0
	g.list, g.open = nil, 0
	return was
}

func watched(threads []watch, slot int) *watch {
	if slot < 0 || slot >= len(threads) {
		return nil
	}
	return &threads[slot]
}

func (g *gates) find(id doorways.ID) *gate {
	for _, x := range g.list {
		if x.id == id {
			return x
		}
	}
	return nil
}

// one counts the threads at one method.
func (g *gates) one(x *gate, now int64, states []gvl.ThreadState, slots []int, threads []watch) {
	l := gateLook{atNS: now}
	x.serving, x.nested = true, false
	inside := make(map[sampler.ThreadID]int64, len(x.inside))
	waiters, joined := make(map[sampler.ThreadID]bool), []sampler.ThreadID(nil)
	changed := false
	for i := range states {
		ts, w := &states[i], watched(threads, slots[i])
		if w == nil || w.stack == 0 {
			continue
		}
		s := g.Of(w.stack)
		near, through := slices.Contains(s.Near, x.id), slices.Contains(s.Through, x.id)
		waits := near && gvl.InQueue(ts.State, &ts.Detail)
		switch {
		case waits:
			l.waiting++
			x.serving = x.serving && w.flags&(stackkind.Server|stackkind.Serving) != 0
			x.nested = x.nested || through
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
			// Of one that was not known yet it is not known whether its time was up.
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
	x.nested = x.nested || slices.ContainsFunc(joined, func(id sampler.ThreadID) bool { return waiters[id] })
	l.changed = changed && len(x.inside) > 0
	x.inside = inside
	if len(x.known) > 2*len(states)+gateLooks {
		clear(x.known)
	}
	x.looks[x.next] = l
	x.next = (x.next + 1) % len(x.looks)
	x.judge(now)
}

// judge finds out whether the method is a gate, and how many threads it lets in.
func (x *gate) judge(now int64) {
	sizes := make(map[int32]int)
	// Only the window counts: in an hour, workers with few jobs change and leave, too.
	n, changed, left, vain := 0, 0, 0, 0
	for _, l := range x.looks {
		if l.atNS <= now-findingsWindowNS {
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
	allowed, allowedMore, moves := gateFewer, gateMore, changed >= gateChanges || left >= gateLeft || vain >= gateVain
	if left >= gateLeft {
		allowed = gateFewerSeen
	}
	if x.open { // what is known to be one stays one on less, lest a finding comes and goes
		allowed, allowedMore, moves = gateFewerSeen, 2*gateMore, moves || changed+left+vain > 0
	}
	x.size = int(size)
	x.open = n >= gateMinLooks && size > 0 && float64(more) <= allowedMore*float64(n) &&
		(x.serving || x.nested || moves && fewer <= int(allowed*float64(n))+1)
}

// topCount is the number with the highest count, the largest of equal ones.
func topCount(counts map[int32]int) (value int32, times int) {
	for v, n := range counts {
		if n > times || n == times && v > value {
			value, times = v, n
		}
	}
	return value, times
}

// waiting is the mean number of waiting threads in the window.
func (x *gate) waiting(now int64) float64 {
	sum, n := 0, 0
	for _, l := range x.looks {
		if l.atNS > now-findingsWindowNS {
			sum += int(l.waiting)
			n++
		}
	}
	return gvl.Ratio(int64(sum), int64(n))
}
