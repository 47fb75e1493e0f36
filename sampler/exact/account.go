package exact

import (
	"cmp"
	"math/bits"
	"slices"
)

const (
	// maxListed bounds the threads that are told apart, maxLongest the longest waits that are kept.
	maxListed, maxLongest = 2000, 10
	// subBuckets is into how many parts a histogram divides each power of two: it tells lengths apart that differ by 3 %.
	subBits    = 5
	subBuckets = 1 << subBits
)

// Stat is what exact mode saw, the "exact" of the JSON of `ddtop stat` (docs/json.md). Durations are in ns, *_monotonic_ns is
// CLOCK_MONOTONIC. Threads go by their native ids.
type Stat struct {
	StartNS    int64 `json:"start_monotonic_ns"`
	EndNS      int64 `json:"end_monotonic_ns"`
	DurationNS int64 `json:"duration_ns"`
	// HeldNS is for how long a thread held the GVL, WaitingNS for how long threads waited for it, in sum. DoubtfulNS is the time of
	// threads (all states) in which changes may have been missed, because records were lost.
	HeldNS     int64 `json:"held_ns"`
	WaitingNS  int64 `json:"waiting_ns"`
	DoubtfulNS int64 `json:"doubtful_ns"`
	// Turns is how often a thread got the GVL.
	Turns   int64    `json:"turns"`
	Waits   Waits    `json:"waits"`
	Threads []Thread `json:"threads"`
	// Omitted is how many threads are missing in Threads, which has the first 2,000; in the sums they are. Of those beyond 20,000
	// it is not known how many they are.
	Omitted int `json:"threads_omitted"`
	// Longest are the longest waits, longest first.
	Longest []StatWait `json:"longest_waits"`
	Probes  Probes     `json:"probes"`
	// Ended says why it was ended early; "" if it was not. Wrong: what was seen is not to be trusted, and nothing of it is told.
	Ended string `json:"ended"`
	Wrong bool   `json:"wrong"`
}

// Waits are the waits for the GVL that ended in the window, or go on at its end, whole. Quantiles are exact to 3 %.
type Waits struct {
	Count      int64 `json:"count"`
	InProgress int64 `json:"in_progress"`
	P50NS      int64 `json:"p50_ns"`
	P90NS      int64 `json:"p90_ns"`
	P99NS      int64 `json:"p99_ns"`
	MaxNS      int64 `json:"max_ns"`
	// QueueNS and HandoverNS are the waiting before and after the thread was chosen; NoCPUNS is the part of both without a CPU.
	QueueNS    int64 `json:"queue_ns"`
	HandoverNS int64 `json:"handover_ns"`
	NoCPUNS    int64 `json:"no_cpu_ns"`
}

// Thread is what a native thread did in the window.
type Thread struct {
	TID        int32 `json:"tid"`
	RunningNS  int64 `json:"running_ns"`
	WaitingNS  int64 `json:"waiting_ns"`
	ReleasedNS int64 `json:"released_ns"`
	// RunningNoCPUNS is for how long it held the GVL and had no CPU.
	RunningNoCPUNS int64 `json:"running_no_cpu_ns"`
	Turns          int64 `json:"turns"`
	Waits          int64 `json:"waits"`
	LongestNS      int64 `json:"longest_wait_ns"`
}

// StatWait is one wait for the GVL.
type StatWait struct {
	TID        int32 `json:"tid"`
	StartNS    int64 `json:"start_monotonic_ns"`
	NS         int64 `json:"ns"`
	HandoverNS int64 `json:"handover_ns"`
	NoCPUNS    int64 `json:"no_cpu_ns"`
	// FirstHolder held the GVL when the wait began, LastHolder last before it ended; 0: nobody.
	FirstHolder int32 `json:"first_holder_tid"`
	LastHolder  int32 `json:"last_holder_tid"`
	InProgress  bool  `json:"in_progress"`
	Doubtful    bool  `json:"doubtful"`
}

// Probes says how the probes did.
type Probes struct {
	// Hits is how often a thread came past a probe, Records how many of them made a record, Lost how many records had no room.
	Hits    uint64 `json:"hits"`
	Records uint64 `json:"records"`
	Lost    uint64 `json:"lost"`
	// CostNS is for how long the probes held threads up, by estimate, CPUNS the CPU time that the process took meanwhile.
	CostNS int64 `json:"cost_ns"`
	CPUNS  int64 `json:"process_cpu_ns"`
	HitNS  int64 `json:"hit_ns"`
	// Agreed and Disagreed count the turns in which sampling saw the GVL held by the thread that held it by the records, and by another
	// one.
	Agreed    uint64 `json:"agreed"`
	Disagreed uint64 `json:"disagreed"`
}

// Account is a Consumer that sums up.
type Account struct {
	s       Stat
	threads map[int32]int // place in s.Threads
	lengths [(64 - subBits) << subBits]int64
}

// NewAccount returns an Account of nothing yet.
func NewAccount() *Account { return &Account{threads: make(map[int32]int)} }

// Interval takes one.
func (a *Account) Interval(i *Interval) {
	t := a.thread(i.TID)
	if t == nil {
		t = new(Thread)
	}
	switch i.State {
	case Running:
		t.RunningNS += i.NS()
		t.RunningNoCPUNS += i.NoCPUNS
		t.Turns++
		a.s.HeldNS += i.NS()
		a.s.Turns++
	case Waiting:
		t.WaitingNS += i.NS()
		a.s.WaitingNS += i.NS()
	case Released:
		t.ReleasedNS += i.NS()
	}
	if i.Doubtful {
		a.s.DoubtfulNS += i.NS()
	}
}

// thread returns a thread's entry; nil: there are too many.
func (a *Account) thread(tid int32) *Thread {
	if at, ok := a.threads[tid]; ok {
		if at < 0 {
			return nil
		}
		return &a.s.Threads[at]
	}
	if len(a.s.Threads) >= maxListed {
		if len(a.threads) < 10*maxListed {
			a.threads[tid] = -1
			a.s.Omitted++
		}
		return nil
	}
	a.threads[tid] = len(a.s.Threads)
	a.s.Threads = append(a.s.Threads, Thread{TID: tid})
	return &a.s.Threads[len(a.s.Threads)-1]
}

// Waited takes a wait.
func (a *Account) Waited(w *Wait) {
	ns := w.NS()
	waits := &a.s.Waits
	waits.Count++
	if w.InProgress {
		waits.InProgress++
	}
	waits.HandoverNS += w.HandoverNS
	waits.QueueNS += ns - w.HandoverNS
	waits.NoCPUNS += w.NoCPUNS
	waits.MaxNS = max(waits.MaxNS, ns)
	a.lengths[bucketOf(ns)]++
	if t := a.thread(w.TID); t != nil {
		t.Waits++
		t.LongestNS = max(t.LongestNS, ns)
	}
	if n := len(a.s.Longest); n == maxLongest && ns <= a.s.Longest[n-1].NS {
		return
	}
	at, _ := slices.BinarySearchFunc(a.s.Longest, ns, func(o StatWait, ns int64) int { return cmp.Compare(ns, o.NS) })
	a.s.Longest = slices.Insert(a.s.Longest, at, StatWait{
		TID: w.TID, StartNS: w.FromNS, NS: ns, HandoverNS: w.HandoverNS, NoCPUNS: w.NoCPUNS,
		FirstHolder: w.FirstHolder, LastHolder: w.LastHolder, InProgress: w.InProgress, Doubtful: w.Doubtful,
	})
	a.s.Longest = a.s.Longest[:min(len(a.s.Longest), maxLongest)]
}

// Stat returns what was seen between two times, those between which the Machine was fed.
func (a *Account) Stat(fromNS, toNS int64) Stat {
	s := a.s
	s.StartNS, s.EndNS, s.DurationNS = fromNS, toNS, toNS-fromNS
	s.Threads, s.Longest = slices.Clone(s.Threads), slices.Clone(s.Longest)
	if s.Threads == nil {
		s.Threads = []Thread{}
	}
	if s.Longest == nil {
		s.Longest = []StatWait{}
	}
	slices.SortStableFunc(s.Threads, func(a, b Thread) int { return cmp.Compare(b.RunningNS+b.WaitingNS, a.RunningNS+a.WaitingNS) })
	for _, q := range []struct {
		to    *int64
		share float64
	}{{&s.Waits.P50NS, .5}, {&s.Waits.P90NS, .9}, {&s.Waits.P99NS, .99}} {
		*q.to = min(a.quantile(q.share), s.Waits.MaxNS)
	}
	return s
}

// quantile returns the length that a share of the waits does not exceed, 0 if there are none.
func (a *Account) quantile(share float64) int64 {
	rank := int64(share * float64(a.s.Waits.Count))
	for b, n := range a.lengths {
		if rank -= n; rank < 0 && n > 0 {
			return bucketEnd(b)
		}
	}
	return a.s.Waits.MaxNS
}

// bucketOf is the bucket of a length: short ones have their own, then 32 for each power of two.
func bucketOf(ns int64) int {
	n := uint64(max(ns, 0))
	shift := max(bits.Len64(n)-subBits-1, 0)
	return shift<<subBits + int(n>>shift)
}

// bucketEnd is the longest length of a bucket.
func bucketEnd(b int) int64 {
	shift := max(b>>subBits-1, 0)
	return (int64(b-shift<<subBits)+1)<<shift - 1
}
