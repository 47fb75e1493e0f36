package gvl

import (
	"cmp"
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// MaxLongestWaits is how many waits a WaitList keeps.
const MaxLongestWaits = 100

// LongWait is one wait for the GVL with what came before it: "100 ms reading from the database, then 100 ms queueing".
type LongWait struct {
	Thread sampler.ThreadID
	// StartNS is when it began, CLOCK_MONOTONIC in ns; NS how long it lasted, or has lasted when InProgress.
	StartNS, NS int64
	InProgress  bool
	// Before is the state before the wait with its detail, Unknown when it was not seen; BeforeNS how long that lasted,
	// as far as seen.
	Before   ThreadState
	BeforeNS int64
}

// waitWatch follows one thread.
type waitWatch struct {
	// last is its state with when it began, wait the wait that goes on.
	last    ThreadState
	sinceNS int64
	wait    LongWait
	waiting bool
}

// WaitList keeps the longest single waits for the GVL of a run. It is not safe for concurrent use.
type WaitList struct {
	steps stepper
	table table[waitWatch]
	// top is a heap of the longest ones, the shortest of them first.
	top    []LongWait
	lastNS int64
}

// NewWaitList returns a WaitList for the target p.
func NewWaitList(p sampler.Process) *WaitList {
	return &WaitList{steps: newStepper(p), table: newTable[waitWatch]()}
}

// Feed adds one sample with its states (parallel to s.Threads). Samples must come in order of time. A wait is cut by a
// gap in the samples, for nothing is known of that time.
func (l *WaitList) Feed(s *sampler.Sample, states []ThreadState) {
	st := l.steps.next(s)
	at := st.midNS
	if st.gap {
		at = st.fromNS
	}
	l.table.begin(len(states))
	for i := range states {
		ts := &states[i]
		r, fresh := l.table.at(i, ts.Thread)
		if r == nil {
			continue
		}
		w := &r.v
		if fresh || st.gap {
			if st.gap && !fresh {
				l.end(w, at)
			}
			*w = waitWatch{}
		}
		waiting := ts.State == Waiting
		if w.waiting && !waiting {
			l.end(w, at)
		}
		if waiting && !w.waiting {
			w.waiting = true
			w.wait = LongWait{Thread: ts.Thread, StartNS: at, Before: w.last}
			if st.gap || fresh {
				w.wait.StartNS = st.toNS
			}
			if w.last.State != Unknown {
				w.wait.BeforeNS = at - w.sinceNS
			}
		}
		if ts.State != w.last.State || w.sinceNS == 0 {
			w.sinceNS = at
		}
		if !waiting || w.last.State != Waiting {
			w.last = *ts // what was before the next wait; of one that goes on nothing more is needed
		}
	}
	l.table.end(func(r *record[waitWatch]) { l.end(&r.v, at) })
	l.lastNS = st.toNS
}

// end closes the wait of a thread.
func (l *WaitList) end(w *waitWatch, at int64) {
	if !w.waiting {
		return
	}
	w.waiting = false
	w.wait.NS = at - w.wait.StartNS
	l.add(w.wait)
}

func (l *WaitList) add(w LongWait) {
	if len(l.top) < MaxLongestWaits {
		l.top = append(l.top, w)
		for i := len(l.top) - 1; i > 0 && l.top[(i-1)/2].NS > l.top[i].NS; i = (i - 1) / 2 {
			l.top[i], l.top[(i-1)/2] = l.top[(i-1)/2], l.top[i]
		}
		return
	}
	if w.NS <= l.top[0].NS {
		return
	}
	l.top[0] = w
	for i := 0; ; {
		low := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(l.top) && l.top[c].NS < l.top[low].NS {
				low = c
			}
		}
		if low == i {
			return
		}
		l.top[i], l.top[low] = l.top[low], l.top[i]
		i = low
	}
}

// Longest returns the n longest waits of at least thresholdNS, the longest first, those that go on included. The slice
// is the caller's.
func (l *WaitList) Longest(n int, thresholdNS int64) []LongWait {
	all := slices.Clone(l.top)
	for _, r := range l.table.byID {
		if w := &r.v; w.waiting {
			w := w.wait
			w.NS, w.InProgress = l.lastNS-w.StartNS, true
			all = append(all, w)
		}
	}
	all = slices.DeleteFunc(all, func(w LongWait) bool { return w.NS < thresholdNS })
	slices.SortFunc(all, func(a, b LongWait) int {
		return cmp.Or(cmp.Compare(b.NS, a.NS), cmp.Compare(a.StartNS, b.StartNS), cmp.Compare(a.Thread, b.Thread))
	})
	return all[:min(n, len(all))]
}
