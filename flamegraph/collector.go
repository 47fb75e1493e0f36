package flamegraph

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/sampler"
)

// maxCPUShares limits the number of stacks among which a thread's CPU time is divided. The division is necessary
// because the CPU time is read from the kernel (schedstat) less often than stacks are.
const maxCPUShares = 64

// onCPU has the states in which a thread can use a CPU. A thread's CPU time is charged to the stacks seen in these
// states.
var onCPU = States(gvl.Running, gvl.GC, gvl.Native)

type cpuShare struct {
	key Key
	ns  int64
}

// threadState has a thread's CPU time at the last reading, and the stacks among which the next CPU time is divided.
type threadState struct {
	last     Key // the key of the last interval
	tid      int32
	cpuAtNS  int64
	cpuNS    int64
	cpuKnown bool
	shares   []cpuShare
}

// Sink receives weights, such as the time spent in a stack, when a Collector charges them to keys. atNS is the end of
// the period that the weights belong to. A Rolling is a Sink.
type Sink interface {
	Add(atNS int64, k Key, w Weights)
}

// Collector turns the intervals of a stream.Stream into weights, for one or more Sinks:
//
//   - WallNS is the length of the intervals. If a thread stays in known C functions, its time is charged to them.
//   - CPUNS is the thread's CPU time. It is read from schedstat, less often than stacks. It is divided among the stacks
//     seen since the last reading, by their time in states that can use a CPU. If there was no such state, it is
//     divided by their time in any state.
//   - BlameNS is the time that other threads of the ractor wait for the GVL, charged to the holder's stack.
//   - Stacks of running threads with C functions are counted under separate keys (Key.Ran).
//   - AllocSeen is the number of objects allocated just before a stack was read (sampler.AllocPair).
//
// In the steady state a Collector allocates no memory. It is not safe for concurrent use, but a Rolling is.
type Collector struct {
	gvl.Ignore
	stateOf func(gvl.State, *gvl.Detail, sampler.StackID, sampler.WorkID) gvl.State
	out     []Sink
	threads []threadState // by gvl.Interval.Slot
	alloc   allocState
	lastNS  int64
	served  endpoints
	charges servedCharges
	native  nativeWeights
	byGC    bool
	rests   func(gvl.State, *gvl.Detail, sampler.StackID, sampler.WorkID) bool // nil unless ByRest was called
}

// NewCollector returns a Collector that adds the weights of a stream's intervals to each of the given Sinks. The
// function stateOf decides the state under which a weight is charged. If stateOf is nil, it is the state of the
// interval.
func NewCollector(s *stream.Stream, stateOf func(gvl.State, *gvl.Detail, sampler.StackID, sampler.WorkID) gvl.State, out ...Sink) *Collector {
	if stateOf == nil {
		stateOf = func(st gvl.State, _ *gvl.Detail, _ sampler.StackID, _ sampler.WorkID) gvl.State { return st }
	}
	c := &Collector{stateOf: stateOf, out: out}
	s.Attach(c)
	return c
}

// ByEndpoint separates weights by the route or the class of jobs that the thread worked for, as dict names it. A
// request can change its name, and all of its time belongs to its last name. So the Sinks get the weights of a request
// late, at the latest when Finish is called. Call ByEndpoint before the first sample.
func (c *Collector) ByEndpoint(dict *sampler.Dictionary) {
	c.served.begin(dict, false)
	c.charges.begin()
}

// ByEndpointNow is like ByEndpoint, but passes weights to the Sinks at once. When a request changes its name, its
// weights are subtracted from the old name and added to the new one. So the Sinks must accept negative weights.
func (c *Collector) ByEndpointNow(dict *sampler.Dictionary) {
	c.ByEndpoint(dict)
	c.charges.now, c.charges.limit = true, maxNowCharges
}

// BySpan does the same as ByEndpoint, and also separates weights by the tracer's spans. The function crowded reports
// whether the Sinks have no space for new spans. If crowded returns true, the weights of a new span are charged to its
// endpoint without the span. crowded may be nil.
func (c *Collector) BySpan(dict *sampler.Dictionary, crowded func() bool) {
	c.served.begin(dict, true)
	c.charges.begin()
	c.served.crowded = crowded
}

// ByGC separates the time of garbage collections by their reason (Key.GC). Call it before the first sample.
func (c *Collector) ByGC() { c.byGC = true }

// ByRest separates the time in which a thread has nothing to do: this time is charged to keys with Key.Rests. The
// function rests reports whether a thread has nothing to do. Call ByRest before the first sample.
func (c *Collector) ByRest(rests func(gvl.State, *gvl.Detail, sampler.StackID, sampler.WorkID) bool) {
	c.rests = rests
}

// Served returns the current endpoint and span of each EndpointID, indexed by the ID. The result is nil if weights are
// not separated by endpoint. Several IDs can have the same endpoint and span, because requests change their names.
// Standing returns the one of these IDs that represents the others.
func (c *Collector) Served() []Served {
	out := slices.Clone(c.served.list)
	for i := range out {
		out[i] = c.served.list[c.Standing(EndpointID(i))]
	}
	return out
}

// Standing returns the ID that represents all EndpointIDs with the same endpoint and span as id.
func (c *Collector) Standing(id EndpointID) EndpointID { return standing(c.served.as, id) }

// Endpoint returns the ID of a route or a class of jobs. It is zero if this route or class was not seen.
func (c *Collector) Endpoint(e Endpoint) EndpointID {
	return c.Standing(c.served.ids[Served{Endpoint: e}])
}

// renamed is called after names of requests may have changed. If a name has changed, renamed passes the new table of
// names to each Rolling. For each EndpointID, the table has the EndpointID that represents it.
func (c *Collector) renamed() {
	if !c.served.rename() {
		return
	}
	for _, s := range c.out {
		if r, ok := s.(*Rolling); ok {
			r.rename(c.served.as)
		}
	}
}

// Interval adds the length of an interval to the weights of its key: the thread, its stack and its state.
func (c *Collector) Interval(i *gvl.Interval) {
	k := c.key(i.Thread, i.Stack, i.State, &i.Detail, &i.Serving)
	w := Weights{WallNS: i.NS()}
	if i.State == gvl.Waiting {
		w.WaitNS = w.WallNS
	}
	c.put(i.FromNS, i.ToNS, k, w)
	if st := c.thread(i.Slot); i.Sampled() {
		st.last = k
		st.share(k, w.WallNS)
	}
}

// key returns the key to which the Collector charges the time of a thread with this stack, state and work.
func (c *Collector) key(id sampler.ThreadID, stack sampler.StackID, st gvl.State, d *gvl.Detail, s *sampler.Serving) Key {
	k := Key{Thread: id, Stack: stack, State: c.stateOf(st, d, stack, s.Work), Endpoint: c.request(s)}
	if c.byGC && k.State == gvl.GC {
		k.GC = d.GCReason
	}
	k.Rests = c.rests != nil && c.rests(st, d, stack, s.Work)
	return k
}

// Lock charges the time of waiting threads to the holder of the GVL.
func (c *Collector) Lock(i *gvl.LockInterval) {
	if i.Waiters > 0 && i.Blamed() {
		k := Key{Thread: i.Thread, Stack: i.Stack, State: i.State, Endpoint: c.request(&i.Serving)}
		if c.byGC {
			k.GC = i.GCReason
		}
		c.put(i.FromNS, i.ToNS, k, Weights{BlameNS: i.WaitNS()})
	}
}

// Ended forgets a thread that has ended.
func (c *Collector) Ended(slot int, _ int64) {
	st := c.thread(slot)
	*st = threadState{shares: st.shares[:0]}
}

// Tick charges everything that is counted once per sample: the sample itself, CPU time, allocations and stacks of
// running threads.
func (c *Collector) Tick(t *gvl.Tick) {
	c.nativeTick(t)
	c.runs(t.Sample)
	for i := range t.States {
		slot, ts := t.Slots[i], &t.States[i]
		if slot < 0 {
			continue
		}
		th := &t.Threads[i]
		paired := th.ID == t.GC.Pair.Thread
		if t.Depth == sampler.StackTick || paired {
			k := c.key(th.ID, th.Stack, ts.State, &ts.Detail, &th.Serving)
			if t.Depth == sampler.StackTick {
				c.put(t.ToNS, t.ToNS, k, Weights{Samples: 1})
			}
			if paired {
				c.alloc.key, c.alloc.found = k, true
			}
		}
		c.cpu(c.thread(slot), th, ts)
	}
	c.allocations(t.Sample)
	c.renamed()
	c.lastNS = t.ToNS
}

// Finish passes to the Sinks all weights that the Collector has held back, because a name or a CPU time was not known
// yet. Call it after the stream has finished.
func (c *Collector) Finish() {
	c.releaseAll()
	c.flushAllocations(c.lastNS)
	c.settleAll()
	c.renamed()
}

func (c *Collector) thread(slot int) *threadState {
	for slot >= len(c.threads) {
		c.threads = append(c.threads, threadState{})
	}
	return &c.threads[slot]
}
