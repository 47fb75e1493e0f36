package findings

import (
	"math"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings/internal/resting"
	"github.com/ddtop/ddtop/gvl/findings/internal/stackkind"
	"github.com/ddtop/ddtop/sampler"
)

// dim is the kind of a sum. The comment at each kind says what the sum's id is, and which time or number the sum adds
// up.
type dim uint8

const (
	dimThread       dim = iota // id: thread; time. The key also has the fields ractor, state and idle
	dimPeer                    // id: peer group (all connections to one remote end); time in I/O, not at rest
	dimConnect                 // id: peer group; time of attempts to connect
	dimLock                    // id: lock; time waiting for it
	dimFlag                    // id: stack flags; busy time, including waits for a pool
	dimOp                      // id: opResolves or opChildren; time in I/O
	dimRest                    // id: state; time asleep or parked during a request or job
	dimGC                      // id: stack in which the collector ran
	dimLoad                    // time in which threads load code, or wait for the GVL to load code
	dimCPU                     // id: thread; time on a CPU
	dimCall                    // id: peer group, shortest and longest length; number of calls
	dimAlloc                   // id: stack; objects made just before the stack was read
	dimAllocSquares            // id: stack; sum of the squares of dimAlloc's numbers
)

type sumKey struct {
	id     uint64
	ractor sampler.RactorID
	dim    dim
	state  gvl.State
	idle   bool
}

// These are the ids of dimOp. opResolves is for threads that resolve names, opChildren for waits for child processes.
const (
	opResolves = iota
	opChildren
	numOps
)

// maxSums limits the sums of a second: 20,000 threads need three each. Beyond this limit, time is added only to the
// sums of all threads.
const maxSums = 1 << 16

// tally has the latest time of one thread. This time is not yet added to the sums of the seconds.
type tally struct {
	// last is the thread's newest interval. If the next interval belongs to the same sums, it is joined to last.
	last gvl.Interval
	// stack is the thread's present stack. heldNS is for how long the thread has held the GVL with this stack.
	stack  sampler.StackID
	heldNS int64
}

// alike reports whether two intervals of a thread belong to the same sums, so that they can be added together.
func alike(x, y *gvl.Interval) bool {
	a, b := &x.Detail, &y.Detail
	return x.State == y.State && x.Stack == y.Stack && a.Peer == b.Peer && a.Object == b.Object && a.FDs == b.FDs && a.Op == b.Op &&
		a.Syscall == b.Syscall && a.Reason == b.Reason
}

func (c *collector) Interval(i *gvl.Interval) {
	for i.Slot >= len(c.tallies) {
		c.tallies = append(c.tallies, tally{})
	}
	t := &c.tallies[i.Slot]
	if t.last.ToNS == i.FromNS && alike(&t.last, i) {
		t.last.ToNS = i.ToNS
		return
	}
	c.add(t)
	t.last = *i
}

// add adds a thread's last interval to the sums of the seconds that it covers.
func (c *collector) add(t *tally) {
	i := &t.last
	if i.FromNS == i.ToNS {
		return
	}
	t.hold(i, c)
	if keys := c.keysOf(i); len(keys) > 0 {
		c.spread(i.FromNS, i.ToNS, func(b *second, ns int64) { b.add(keys, ns) })
	}
	i.FromNS = i.ToNS
}

// hold adds the length of an interval to heldNS if the thread held the GVL. If the interval has a new stack, hold first
// sets heldNS to zero.
func (t *tally) hold(i *gvl.Interval, c *collector) {
	if i.Stack != t.stack {
		t.stack, t.heldNS = i.Stack, 0
	}
	if i.State.Held() {
		c.spread(i.FromNS, i.ToNS, func(_ *second, ns int64) { t.heldNS += ns })
	}
}

func (b *second) add(keys []sumKey, ns int64) {
	if len(b.sums) >= maxSums { // too many sums: add the time only to the sum of all threads
		k := keys[0]
		k.id, k.ractor = 0, 0
		b.sums[k] += ns
		return
	}
	for _, k := range keys {
		b.sums[k] += ns
	}
}

// keysOf returns the keys of the sums to which an interval is added. The first is the key of the thread itself. An
// interval without samples has no keys. The result is valid until the next call.
func (c *collector) keysOf(i *gvl.Interval) []sumKey {
	if !i.Sampled() {
		return nil
	}
	d, flags := &i.Detail, c.classes.Of(i.Stack).With(i.Serving.Work)
	group := c.peers.GroupOf(d.Peer)
	gated := c.gates.Closed(i.State, d, i.Stack) != nil
	idle := !gated && c.idle(i.State, d, flags, group)
	keys := append(c.keys[:0], sumKey{id: uint64(i.Thread), ractor: i.Ractor, state: i.State, idle: idle})
	if i.State == gvl.GC && i.Stack != 0 {
		keys = append(keys, sumKey{dim: dimGC, id: uint64(i.Stack)})
	}
	if flags&stackkind.Require != 0 && (i.State.Held() || i.State == gvl.Waiting) {
		keys = append(keys, sumKey{dim: dimLoad})
	}
	switch {
	case idle:
	case i.State == gvl.IO:
		// slow name servers are left out here, because the rule dns_slow reports them
		if group != 0 && d.Op != gvl.OpResolve {
			keys = append(keys, sumKey{dim: dimPeer, id: uint64(group)})
			if d.Op == gvl.OpConnect || flags&stackkind.Connect != 0 {
				keys = append(keys, sumKey{dim: dimConnect, id: uint64(group)})
			}
		}
		switch {
		case d.Op == gvl.OpResolve:
			keys = append(keys, sumKey{dim: dimOp, id: opResolves})
		case inChild(i.State, d, flags):
			keys = append(keys, sumKey{dim: dimOp, id: opChildren})
		}
		if f := flags & (stackkind.DB | stackkind.Redis); f != 0 {
			keys = append(keys, sumKey{dim: dimFlag, id: uint64(f)})
		}
	case i.State == gvl.Lock && d.Object != 0:
		keys = append(keys, sumKey{dim: dimLock, id: d.Object})
	case (i.State == gvl.Parked || i.State == gvl.Sleeping) && (gated || flags&stackkind.Pool != 0):
		keys = append(keys, sumKey{dim: dimFlag, id: uint64(stackkind.Pool)})
	case resting.AtWork(i.State, flags):
		keys = append(keys, sumKey{dim: dimRest, id: uint64(i.State)})
	}
	c.keys = keys
	return keys
}

// pending calls fn for each second of the intervals that are not final, which the stream may still change.
func (c *collector) pending(fn func(b *second, keys []sumKey, ns int64)) {
	for k := range c.threads {
		if id := c.threads[k].id; id != 0 {
			c.stream.Pending(id, func(i *gvl.Interval) {
				if keys := c.keysOf(i); len(keys) > 0 {
					c.spread(i.FromNS, i.ToNS, func(b *second, ns int64) { fn(b, keys, ns) })
				}
			})
		}
	}
}

// heldNS returns how long a thread has held the GVL with its present stack.
func (c *collector) heldNS(x *watch) int64 {
	t := tally{stack: x.stack}
	if x.slot < len(c.tallies) {
		c.add(&c.tallies[x.slot])
		t = c.tallies[x.slot]
	}
	c.stream.Pending(x.id, func(i *gvl.Interval) { t.hold(i, c) })
	if t.stack != x.stack {
		return 0
	}
	return t.heldNS
}

// stop is a period in which the process was stopped. frozen is set if it was stopped because its cgroup is frozen, and
// not by a signal or a debugger.
type stop struct {
	fromNS, toNS int64
	frozen       bool
}

// maxStops limits the number of stops that are remembered. Few are needed: the intervals around a stop usually arrive
// within a second.
const maxStops = 16

// stop notes that the process was stopped at atNS. spread leaves out the time until the process continues, so no rule
// uses this time.
func (c *collector) stop(atNS int64, frozen bool) {
	if c.stopped() {
		last := &c.stops[len(c.stops)-1]
		last.frozen = last.frozen || frozen
		return
	}
	if len(c.stops) == maxStops {
		c.stops = slices.Delete(c.stops, 0, 1)
	}
	c.stops = append(c.stops, stop{atNS, math.MaxInt64, frozen})
}

// stopped reports whether the process is stopped.
func (c *collector) stopped() bool {
	n := len(c.stops)
	return n > 0 && c.stops[n-1].toNS == math.MaxInt64
}

// spread splits a period by seconds and calls fn for each. It leaves out the times in which the process was stopped
// (stops), and seconds older than the ring keeps.
func (c *collector) spread(fromNS, toNS int64, fn func(b *second, ns int64)) {
	fromNS = max(fromNS, toNS-int64(len(c.ring))*1e9)
	for _, s := range c.stops {
		if s.fromNS >= toNS {
			break
		}
		c.bySecond(fromNS, min(s.fromNS, toNS), fn)
		fromNS = max(fromNS, s.toNS)
	}
	c.bySecond(fromNS, toNS, fn)
}

func (c *collector) bySecond(fromNS, toNS int64, fn func(b *second, ns int64)) {
	for fromNS < toNS {
		sec := fromNS / 1e9
		end := min(toNS, (sec+1)*1e9)
		if b := c.secondAt(sec); b != nil {
			fn(b, end-fromNS)
		}
		fromNS = end
	}
}

// secondAt returns the sums of a second, or nil if the second is so old that the ring does not keep it.
func (c *collector) secondAt(sec int64) *second {
	b := &c.ring[sec%int64(len(c.ring))]
	switch {
	case b.at > sec:
		return nil
	case b.at < sec:
		clear(b.sums)
		b.waits.Reset()
		*b = second{at: sec, sums: b.sums, counts: counts{waits: b.waits}}
	}
	return b
}
