package account

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// Contended is an object for which threads wait at one instant. It is a Mutex or Monitor with its holder, or a Queue,
// SizedQueue, ConditionVariable or Ractor. It can also be a thread for whose end others wait (Thread#join).
type Contended struct {
	// Kind is the kind of object, as in Detail.Kind. Object is its address. Object is 0 for a thread that others join.
	Kind   string
	Object uint64
	// Exclusive is set for a Mutex or Monitor: its holder makes the other threads wait. For other objects, such as a
	// Queue, waiting threads are no sign of a problem, because idle workers also wait there.
	Exclusive bool
	// Holder is the thread that holds the lock, or the thread that others join. It is zero if there is no such thread
	// or if it is not known. While a lock changes hands, it has no holder for a moment.
	Holder sampler.ThreadID
	// HolderState is the state of the holder, and HolderStack is its stack.
	HolderState gvl.State
	HolderStack sampler.StackID
	// Waiters are the threads that wait, the thread with the longest wait first. LongestNS is the length of the longest
	// wait in ns, and LongestBound says whether this is a lower or upper bound. LongestNS is zero if no length is
	// known, because each thread may have had the lock for a moment since ddtop first saw it wait. SeenNS is the
	// longest time, in ns, for which ddtop has seen a thread wait.
	Waiters      []sampler.ThreadID
	LongestNS    int64
	LongestBound gvl.Bound
	SeenNS       int64
	// Timed is how many of the waits have a timeout.
	Timed int
}

// Longest returns the length of the longest wait.
func (c *Contended) Longest() gvl.Bounded { return gvl.Bounded{NS: c.LongestNS, Bound: c.LongestBound} }

// Locks returns the objects that threads wait for in one sample. First come locks, next other objects, and last the
// threads that others join. Within each group the object with the most waiters comes first. Sleeps and I/O are left
// out. In Ruby 2.5, Monitor is written in Ruby, so a Monitor appears as the Mutex inside it.
func Locks(states []gvl.ThreadState) []Contended {
	type key struct {
		kind   string
		object uint64
		joined sampler.ThreadID
	}
	at := make(map[key]int)
	var out []Contended
	byID := make(map[sampler.ThreadID]*gvl.ThreadState, len(states))
	for i := range states {
		byID[states[i].Thread] = &states[i]
	}
	for i := range states {
		ts := &states[i]
		d := &ts.Detail
		if ts.State != gvl.Lock && ts.State != gvl.Parked || d.Object == 0 && d.Joined == 0 {
			continue
		}
		k := key{d.Kind, d.Object, 0}
		if d.Joined != 0 {
			k = key{d.Kind, 0, d.Joined} // each join has an object of its own, so use the joined thread as the key
		}
		n, ok := at[k]
		if !ok {
			n = len(out)
			at[k] = n
			out = append(out, Contended{Kind: d.Kind, Object: k.object, Exclusive: ts.State == gvl.Lock})
		}
		c := &out[n]
		c.Waiters = append(c.Waiters, ts.Thread)
		if d.DeadlineNS != 0 {
			c.Timed++
		}
		// While a lock passes from one thread to another, only some of the waiting threads name a holder.
		if h := max(d.Holder, d.Joined); h != 0 && c.Holder == 0 {
			c.Holder = h
		}
	}
	for i := range out {
		c := &out[i]
		if ts := byID[c.Holder]; ts != nil {
			c.HolderState, c.HolderStack = ts.State, ts.Stack
		}
		slices.SortStableFunc(c.Waiters, func(a, b sampler.ThreadID) int {
			return cmp.Or(cmp.Compare(byID[b].Told().NS, byID[a].Told().NS), cmp.Compare(byID[b].DurationNS(), byID[a].DurationNS()))
		})
		longest := byID[c.Waiters[0]].Told()
		c.LongestNS, c.LongestBound = longest.NS, longest.Bound
		for _, id := range c.Waiters {
			c.SeenNS = max(c.SeenNS, byID[id].DurationNS())
		}
	}
	last := func(c *Contended) int { // the number of the object's group in the list; group 0 comes first
		switch {
		case c.Exclusive:
			return 0
		case c.Kind == "Thread":
			return 2
		}
		return 1
	}
	sorting.StableBy(out, func(a, b Contended) int {
		return cmp.Or(cmp.Compare(last(&a), last(&b)), cmp.Compare(len(b.Waiters), len(a.Waiters)), cmp.Compare(b.LongestNS, a.LongestNS), cmp.Compare(b.SeenNS, a.SeenNS))
	})
	return out
}
