package flamegraph

import (
	"cmp"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// StateSet is a set of states. Each bit is a state.
type StateSet uint16

// AllStates is the set of all states.
const AllStates StateSet = 1<<gvl.NumStates - 1

// States returns the set of the given states.
func States(states ...gvl.State) StateSet {
	var s StateSet
	for _, st := range states {
		s |= 1 << st
	}
	return s
}

// Has reports whether the set contains a state.
func (s StateSet) Has(st gvl.State) bool { return s&(1<<st) != 0 }

// Key is what weights are charged to: a thread, its stack, and its state at the time. If a Collector separates weights
// by endpoint (Collector.ByEndpoint), the key also has the request or job that the thread worked for.
type Key struct {
	Thread sampler.ThreadID
	Stack  sampler.StackID
	State  gvl.State
	// GC is the reason of the collection, gvl.Detail.GCReason. It is set only in the state gvl.GC, and only if the
	// Collector separates reasons (Collector.ByGC).
	GC uint16
	// Rests is true if the thread had nothing to do. It is false unless Collector.ByRest was called.
	Rests bool
	// Ran marks a stack with C functions that was copied while the thread ran. Weights.Samples counts such stacks, and
	// all other weights are zero. A Collector passes such keys to its Sinks, but no Snapshot has them.
	Ran      bool
	Endpoint EndpointID
}

// Compare orders keys by Thread, Stack, State, Endpoint, GC, Rests (false before true), and Ran.
func (k *Key) Compare(o *Key) int {
	return cmp.Or(cmp.Compare(k.Thread, o.Thread), cmp.Compare(k.Stack, o.Stack), cmp.Compare(k.State, o.State),
		cmp.Compare(k.Endpoint, o.Endpoint), cmp.Compare(k.GC, o.GC), compareBools(k.Rests, o.Rests),
		compareBools(k.Ran, o.Ran))
}

func compareBools(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// Weights are the times and counts that were charged to a Key. They only grow, except when a Rolling drops old data.
type Weights struct {
	// WallNS is elapsed time in ns. CPUNS is CPU time in ns, as the kernel counted it.
	WallNS, CPUNS int64
	// WaitNS is the part of WallNS spent waiting for the GVL.
	WaitNS int64
	// BlameNS is the waiting time of other threads while this stack held the GVL, in ns, summed over threads.
	BlameNS int64
	// Samples is the number of samples that read the stack (stack ticks).
	Samples int64
	// AllocSeen is the number of objects allocated in this stack just before it was read. AllocTicks is the number of
	// readings that saw at least one object. AllocTotal is the part of the growth of the collector's exact counter that
	// was charged to this key. Which key is charged depends on chance, so only the sum over all keys has a meaning.
	// Snapshot.Allocations computes an estimate from these three numbers.
	AllocSeen, AllocTicks, AllocTotal int64
}

// Plus returns the sum of two Weights.
func (w Weights) Plus(o Weights) Weights {
	return Weights{
		WallNS: w.WallNS + o.WallNS, CPUNS: w.CPUNS + o.CPUNS, WaitNS: w.WaitNS + o.WaitNS, BlameNS: w.BlameNS + o.BlameNS,
		Samples: w.Samples + o.Samples, AllocSeen: w.AllocSeen + o.AllocSeen, AllocTicks: w.AllocTicks + o.AllocTicks,
		AllocTotal: w.AllocTotal + o.AllocTotal,
	}
}

// ForgetAllocations sets the counts of objects to zero.
func (w *Weights) ForgetAllocations() { w.AllocSeen, w.AllocTicks, w.AllocTotal = 0, 0, 0 }

// minus returns the difference of two Weights.
func (w Weights) minus(o Weights) Weights {
	return Weights{
		WallNS: w.WallNS - o.WallNS, CPUNS: w.CPUNS - o.CPUNS, WaitNS: w.WaitNS - o.WaitNS, BlameNS: w.BlameNS - o.BlameNS,
		Samples: w.Samples - o.Samples, AllocSeen: w.AllocSeen - o.AllocSeen, AllocTicks: w.AllocTicks - o.AllocTicks,
		AllocTotal: w.AllocTotal - o.AllocTotal,
	}
}

// Of returns the weight of a metric. For Allocations it returns the seen objects, which are in proportion to the
// objects allocated. See Snapshot.Values for an estimate of their number.
func (w Weights) Of(m Metric) int64 {
	switch m {
	case CPU:
		return w.CPUNS
	case Wait:
		return w.WaitNS
	case Blame:
		return w.BlameNS
	case Samples:
		return w.Samples
	case Allocations:
		return w.AllocSeen
	}
	return w.WallNS
}

// Metric selects one number of Weights.
type Metric uint8

// These are the metrics of a tree.
const (
	Wall Metric = iota
	CPU
	Wait
	Blame
	Samples
	// Allocations is an estimate of the number of objects allocated (see AllocEstimate).
	Allocations
)

var metricNames = [...]string{Wall: "wall", CPU: "cpu", Wait: "gvl wait", Blame: "blame", Samples: "samples", Allocations: "allocations"}

// String returns the metric's name on the screen.
func (m Metric) String() string {
	if int(m) >= len(metricNames) {
		return "unknown"
	}
	return metricNames[m]
}

// IsTime reports whether the metric is in ns.
func (m Metric) IsTime() bool { return m != Samples && m != Allocations }
