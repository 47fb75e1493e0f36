package ui

import (
	"math"
	"slices"
	"sort"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

// maxWaitEvents bounds the last single waits that are kept: 9 MB. At a thousand waits a second that is two minutes.
const maxWaitEvents = 1 << 17

// waitEvent is one wait for the GVL.
type waitEvent struct {
	// lenNS is the likely length, between leastNS and mostNS.
	endNS, lenNS    int64
	leastNS, mostNS int64
	// handNS and noCPUNS are gvl.Wait's HandoverNS and NoCPUNS, first and last its FirstHolder and LastHolder: of exact waits alone.
	handNS, noCPUNS int64
	thread          sampler.ThreadID
	first, last     sampler.ThreadID
	// stack is the waiting thread's, those of the holders the last that were read of them when the wait was over; 0: not known.
	stack, firstStack, lastStack sampler.StackID
	work                         sampler.WorkID // what the thread worked for; 0: for nobody, or not known
	ractor                       sampler.RactorID
	after                        gvl.State // what the thread did before it wanted the GVL
	exact                        bool      // both ends are known to the microsecond
	open, cut                    bool      // it goes on; samples did not see one of its ends
}

// wait is what the lengths of waits count of it.
func (e *waitEvent) wait() *gvl.Wait {
	return &gvl.Wait{FromNS: e.fromNS(), ToNS: e.endNS, LeastNS: e.leastNS, MostNS: e.mostNS, InProgress: e.open, Cut: e.cut}
}

// told is the wait's length as it is told.
func (e *waitEvent) told() gvl.Bounded { return e.wait().Told() }

// queueNS is the part of an exact wait before the thread had been chosen.
func (e *waitEvent) queueNS() int64 { return max(e.lenNS-e.handNS, 0) }

// waitEvents is a ring of the last finished waits, in the order of their ends.
type waitEvents struct {
	ring []waitEvent
	next int
}

// add notes a wait. It allocates only until the ring is full.
func (w *waitEvents) add(e waitEvent) {
	if len(w.ring) < maxWaitEvents {
		w.ring = append(w.ring, e)
		return
	}
	w.ring[w.next] = e
	w.next = (w.next + 1) % len(w.ring)
}

func (w *waitEvents) at(i int) *waitEvent { return &w.ring[(w.next+i)%len(w.ring)] }

// each calls fn with the waits that ended in a stretch of time, oldest first.
func (w *waitEvents) each(fromNS, toNS int64, fn func(*waitEvent)) {
	i := sort.Search(len(w.ring), func(i int) bool { return w.at(i).endNS >= fromNS })
	for ; i < len(w.ring); i++ {
		e := w.at(i)
		if e.endNS > toNS {
			return
		}
		fn(e)
	}
}

// fromNS is the time from which on all waits are kept; 0: all there were.
func (w *waitEvents) fromNS() int64 {
	if len(w.ring) < maxWaitEvents {
		return 0
	}
	return w.at(0).endNS
}

// threadWaits are the waits of one thread in a stretch of time.
type threadWaits struct {
	// lengths are those of all waits; those still going on at the end are among them.
	lengths gvl.Lengths
	// longest are the longest ones, the longest first; short is how many more there are that are too short for the list.
	longest []waitEvent
	short   int
}

// listOf says of which thread the single waits are listed (0: of none), from which length on, and how many.
type listOf struct {
	thread    sampler.ThreadID
	atLeastNS int64
	atMost    int
}

// count is how many waits there were.
func (t *threadWaits) count() int64 { return t.lengths.Count() }

// p99 is the 99th percentile in words.
func (t *threadWaits) p99() string { return t.inWords(0.99) }

// inWords is the length that the share q of the waits did not exceed.
func (t *threadWaits) inWords(q float64) string {
	return waitInWords(t.count(), t.lengths.Quantile(q))
}

// byThread sorts the waits of a stretch of time by thread; states are those at its end. Quantiles are of all waits, whatever
// is listed.
func (w *waitEvents) byThread(fromNS, toNS int64, states []gvl.ThreadState, list listOf) map[sampler.ThreadID]*threadWaits {
	out := make(map[sampler.ThreadID]*threadWaits)
	of := func(id sampler.ThreadID) *threadWaits {
		t := out[id]
		if t == nil {
			t = new(threadWaits)
			out[id] = t
		}
		return t
	}
	w.each(fromNS, toNS, func(e *waitEvent) {
		t := of(e.thread)
		t.lengths.Add(e.wait())
		switch {
		case e.thread != list.thread:
		case e.lenNS >= list.atLeastNS:
			t.longest = append(t.longest, *e)
		default:
			t.short++
		}
	})
	for i := range states {
		if s := &states[i]; s.State == gvl.Waiting {
			t := of(s.Thread)
			w := s.Wait()
			t.lengths.Add(&w)
		}
	}
	for _, t := range out {
		slices.SortStableFunc(t.longest, func(x, y waitEvent) int { return int(min(max(y.told().NS-x.told().NS, -1), 1)) })
		t.longest = t.longest[:min(len(t.longest), list.atMost)]
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
	w.each(atNS, math.MaxInt64, func(e *waitEvent) {
		if e.exact && e.fromNS() <= atNS {
			begunExactly(states, e.thread, e.fromNS(), atNS)
		}
	})
}
