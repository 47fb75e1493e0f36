package store

import (
	"math"
	"slices"
	"sort"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// maxWaitEvents bounds the last single waits that are kept: 9 MB. At a thousand waits a second that is two minutes.
const maxWaitEvents = 1 << 17

// WaitEvent is one wait for the GVL.
type WaitEvent struct {
	// LenNS is the likely length, between leastNS and mostNS.
	EndNS, LenNS    int64
	LeastNS, MostNS int64
	// HandNS and noCPUNS are gvl.Wait's HandoverNS and NoCPUNS, first and last its FirstHolder and LastHolder: of exact waits alone.
	HandNS, NoCPUNS int64
	Thread          sampler.ThreadID
	First, Last     sampler.ThreadID
	// Stack is the waiting thread's, those of the holders the last that were read of them when the wait was over; 0: not known.
	Stack, FirstStack, LastStack sampler.StackID
	Work                         sampler.WorkID // what the thread worked for; 0: for nobody, or not known
	Ractor                       sampler.RactorID
	After                        gvl.State // what the thread did before it wanted the GVL
	Exact                        bool      // both ends are known to the microsecond
	Open, Cut                    bool      // it goes on; samples did not see one of its ends
}

// wait is what the lengths of waits count of it.
func (e *WaitEvent) wait() *gvl.Wait {
	return &gvl.Wait{FromNS: e.FromNS(), ToNS: e.EndNS, LeastNS: e.LeastNS, MostNS: e.MostNS, InProgress: e.Open, Cut: e.Cut}
}

// Length is the wait's length as it is told.
func (e *WaitEvent) Length() gvl.Bounded { return e.wait().Told() }

// QueueNS is the part of an exact wait before the thread had been chosen.
func (e *WaitEvent) QueueNS() int64 { return max(e.LenNS-e.HandNS, 0) }

// waitEvents is a ring of the last finished waits, in the order of their ends.
type waitEvents struct {
	ring []WaitEvent
	next int
}

// add notes a wait. It allocates only until the ring is full.
func (w *waitEvents) add(e WaitEvent) {
	if len(w.ring) < maxWaitEvents {
		w.ring = append(w.ring, e)
		return
	}
	w.ring[w.next] = e
	w.next = (w.next + 1) % len(w.ring)
}

func (w *waitEvents) at(i int) *WaitEvent { return &w.ring[(w.next+i)%len(w.ring)] }

// Each calls fn with the waits that ended in a stretch of time, oldest first.
func (w *waitEvents) Each(fromNS, toNS int64, fn func(*WaitEvent)) {
	i := sort.Search(len(w.ring), func(i int) bool { return w.at(i).EndNS >= fromNS })
	for ; i < len(w.ring); i++ {
		e := w.at(i)
		if e.EndNS > toNS {
			return
		}
		fn(e)
	}
}

// FromNS is the time from which on all waits are kept; 0: all there were.
func (w *waitEvents) FromNS() int64 {
	if len(w.ring) < maxWaitEvents {
		return 0
	}
	return w.at(0).EndNS
}

// ThreadWaits are the waits of one thread in a stretch of time.
type ThreadWaits struct {
	// Lengths are those of all waits; those still going on at the end are among them.
	Lengths gvl.Lengths
	// Longest are the longest ones, the longest first; short is how many more there are that are too short for the list.
	Longest []WaitEvent
	Short   int
}

// ListOf says of which thread the single waits are listed (0: of none), from which length on, and how many.
type ListOf struct {
	Thread    sampler.ThreadID
	AtLeastNS int64
	AtMost    int
}

// Count is how many waits there were.
func (t *ThreadWaits) Count() int64 { return t.Lengths.Count() }

// P99 is the 99th percentile in words.
func (t *ThreadWaits) P99() string { return t.InWords(0.99) }

// InWords is the length that the share q of the waits did not exceed.
func (t *ThreadWaits) InWords(q float64) string {
	return WaitInWords(t.Count(), t.Lengths.Quantile(q))
}

// ByThread sorts the waits of a stretch of time by thread; states are those at its end. Quantiles are of all waits, whatever
// is listed.
func (w *waitEvents) ByThread(fromNS, toNS int64, states []gvl.ThreadState, list ListOf) map[sampler.ThreadID]*ThreadWaits {
	out := make(map[sampler.ThreadID]*ThreadWaits)
	of := func(id sampler.ThreadID) *ThreadWaits {
		t := out[id]
		if t == nil {
			t = new(ThreadWaits)
			out[id] = t
		}
		return t
	}
	w.Each(fromNS, toNS, func(e *WaitEvent) {
		t := of(e.Thread)
		t.Lengths.Add(e.wait())
		switch {
		case e.Thread != list.Thread:
		case e.LenNS >= list.AtLeastNS:
			t.Longest = append(t.Longest, *e)
		default:
			t.Short++
		}
	})
	for i := range states {
		if s := &states[i]; s.State == gvl.Waiting {
			t := of(s.Thread)
			w := s.Wait()
			t.Lengths.Add(&w)
		}
	}
	for _, t := range out {
		slices.SortStableFunc(t.Longest, func(x, y WaitEvent) int { return int(min(max(y.Length().NS-x.Length().NS, -1), 1)) })
		t.Longest = t.Longest[:min(len(t.Longest), list.AtMost)]
	}
	return out
}

// begunExactly lets a thread that waits wait since a moment that is known exactly, where samples alone tell no more than that it waited
// each time it was looked at.
func begunExactly(states []gvl.ThreadState, id sampler.ThreadID, fromNS, atNS int64) {
	for i := range states {
		if s := &states[i]; s.Thread == id && s.State == gvl.Waiting {
			s.WaitsExactly(fromNS, atNS)
		}
	}
}

// begunBefore does the same for states of a moment of the past.
func (w *waitEvents) begunBefore(states []gvl.ThreadState, atNS int64) {
	w.Each(atNS, math.MaxInt64, func(e *WaitEvent) {
		if e.Exact && e.FromNS() <= atNS {
			begunExactly(states, e.Thread, e.FromNS(), atNS)
		}
	})
}
