package store

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

const (
	WaitSlotNS   = int64(time.Second)
	maxWaitSlots = 3600
	// longestEach is how many waits of each second are kept for the whole history: the longest ones. The last
	// maxWaitEvents waits are also kept in Events, whatever their length.
	longestEach = 32
	// maxHolderStacks limits how many threads are in the map holders, which has the last stack of each holder of the
	// GVL.
	maxHolderStacks = 1 << 12
)

// waitLog counts finished waits for the GVL by their length. It counts each second separately, so it can compute
// quantiles for any time span of the history.
type waitLog struct {
	gvl.Ignore
	slots []waitSlot
	Sum   gvl.Lengths
	// Events are the latest waits, each with its thread.
	Events waitEvents
	// holders has the stack that each thread had when it last held the GVL. served has, by thread slot, the request for
	// which each thread works while it waits.
	holders map[sampler.ThreadID]sampler.StackID
	served  []served
}

// served is the last period in which a thread waited, and the request or job for which it worked then. The request is
// zero if it changed during the period, or if it is not known.
type served struct {
	thread       sampler.ThreadID
	work         sampler.WorkID
	fromNS, toNS int64
	// open has the numbers of waits that have ended, but whose request is not known yet. The request is known from the
	// intervals of the thread's state during the wait. An interval comes only when its stack is known, and so later
	// than its wait. When the last interval of a wait has come, the wait is removed from open.
	open []int
}

type waitSlot struct {
	second int64
	waits  gvl.Lengths
	// longest is a heap (a priority queue) with the longest waits of the second. The shortest of them comes first,
	// because a longer wait replaces it.
	longest []WaitEvent
}

func NewWaitLog(history time.Duration) *waitLog {
	n := min(int64(history)/WaitSlotNS+2, maxWaitSlots)
	return &waitLog{slots: make([]waitSlot, n), holders: make(map[sampler.ThreadID]sampler.StackID)}
}

// Waited adds a wait that has ended.
func (w *waitLog) Waited(x *gvl.Wait) {
	e := WaitEvent{EndNS: x.ToNS, LenNS: x.NS(), LeastNS: x.LeastNS, MostNS: x.MostNS, Cut: x.Cut, HandNS: x.HandoverNS, NoCPUNS: x.NoCPUNS, Thread: x.Thread, First: x.FirstHolder, Last: x.LastHolder,
		Stack: x.Before.Stack, FirstStack: w.holders[x.FirstHolder], LastStack: w.holders[x.LastHolder], Ractor: x.Before.Ractor, After: x.After, Exact: x.Exact}
	s := w.servedIn(x.Slot)
	if s.thread == e.Thread && s.fromNS < e.EndNS && s.toNS > e.FromNS() {
		e.Work = s.work
	}
	w.Add(&e)
	if n := w.Events.add(e); (s.thread != e.Thread || s.toNS < e.EndNS) && len(s.open) < maxOpenWaits {
		s.open = append(s.open, n)
	}
}

// maxOpenWaits limits how many ended waits of a thread are kept until their request is known. The request becomes known
// when the intervals of the thread's state come. If there are more waits, they get no request.
const maxOpenWaits = 256

func (w *waitLog) servedIn(slot int) *served {
	for slot >= len(w.served) {
		w.served = append(w.served, served{})
	}
	return &w.served[max(slot, 0)]
}

// Lock remembers with which stack a thread holds the GVL.
func (w *waitLog) Lock(i *gvl.LockInterval) {
	stack := cmp.Or(i.Turn, i.Stack)
	if i.Thread == 0 || stack == 0 || w.holders[i.Thread] == stack {
		return
	}
	if len(w.holders) >= maxHolderStacks {
		clear(w.holders)
	}
	w.holders[i.Thread] = stack
}

// Interval remembers for which request a thread works while it waits. The wait belongs to this request, even if ddtop
// has read a later request of the thread since.
func (w *waitLog) Interval(i *gvl.Interval) {
	s := w.servedIn(i.Slot)
	if i.State == gvl.Waiting {
		switch {
		case s.thread != i.Thread || s.toNS != i.FromNS:
			s.thread, s.fromNS, s.work = i.Thread, i.FromNS, i.Serving.Work
		case s.work != i.Serving.Work:
			s.work = 0
		}
		s.toNS = i.ToNS
	}
	left := s.open[:0]
	for _, n := range s.open {
		e := w.Events.numbered(n)
		if e == nil || e.Thread != i.Thread {
			continue
		}
		if i.State == gvl.Waiting && s.fromNS < e.EndNS && s.toNS > e.FromNS() && e.Work != s.work {
			w.slots[e.EndNS/WaitSlotNS%int64(len(w.slots))].serves(e.Key(), s.work)
			e.Work = s.work
		}
		if i.ToNS < e.EndNS {
			left = append(left, n)
		}
	}
	s.open = left
}

// serves stores which request or job a wait belongs to, if the wait is one of the longest of its second.
func (s *waitSlot) serves(k WaitKey, work sampler.WorkID) {
	for i := range s.longest {
		if e := &s.longest[i]; e.Key() == k {
			e.Work = work
		}
	}
}

func (w *waitLog) Add(e *WaitEvent) {
	sec := e.EndNS / WaitSlotNS
	s := &w.slots[sec%int64(len(w.slots))]
	if s.second != sec {
		s.second, s.longest = sec, s.longest[:0]
		s.waits.Reset()
	}
	s.waits.Add(e.wait())
	s.keep(e)
}

// keep stores a wait if it is one of the longest waits of its second.
func (s *waitSlot) keep(e *WaitEvent) {
	if len(s.longest) < longestEach {
		s.longest = append(s.longest, *e)
		if len(s.longest) == longestEach {
			// a sorted list has the order of a heap
			sorting.By(s.longest, func(x, y WaitEvent) int { return cmp.Compare(x.LenNS, y.LenNS) })
		}
		return
	}
	if e.LenNS <= s.longest[0].LenNS {
		return
	}
	s.longest[0] = *e
	for i := 0; ; {
		low := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < longestEach && s.longest[c].LenNS < s.longest[low].LenNS {
				low = c
			}
		}
		if low == i {
			return
		}
		s.longest[i], s.longest[low] = s.longest[low], s.longest[i]
		i = low
	}
}

// ForEach calls fn with the waits of a time span that are kept. These are all recent waits, and of earlier waits the
// longest of each second.
func (w *waitLog) ForEach(fromNS, toNS int64, fn func(*WaitEvent)) {
	all := max(w.Events.FromNS(), fromNS)
	for sec := max(fromNS, 0) / WaitSlotNS; sec <= min(all, toNS)/WaitSlotNS; sec++ {
		s := &w.slots[sec%int64(len(w.slots))]
		if s.second != sec {
			continue
		}
		for i := range s.longest {
			if e := &s.longest[i]; e.EndNS >= fromNS && e.EndNS < all && e.EndNS <= toNS {
				fn(e)
			}
		}
	}
	w.Events.ForEach(all, toNS, fn)
}

// AllSince returns the time from which on every wait is known. It does not return a time before fromNS. Events has all
// recent waits. Before these, all waits of a second are known only if the second had at most longestEach waits.
func (w *waitLog) AllSince(fromNS int64) int64 {
	since := max(w.Events.FromNS(), fromNS)
	for sec := since / WaitSlotNS; since > fromNS; sec-- {
		if sec < 0 {
			return fromNS // soon after boot, a span can begin at a negative time
		}
		if s := &w.slots[sec%int64(len(w.slots))]; s.second > sec || s.second == sec && s.waits.Count() > longestEach {
			break
		}
		since = max(sec*WaitSlotNS, fromNS)
	}
	return since
}

// WaitShares are the quantiles that Lengths returns: the lengths that are not exceeded by 50 %, 90 %, 99 % and all of
// the waits.
var WaitShares = [...]float64{0.5, 0.9, 0.99, 1}

// Indexes of WaitShares.
const (
	WaitP50 = iota
	WaitP90
	WaitP99
	WaitMax
)

// Lengths returns the quantiles (WaitShares) of the lengths of waits in a time span, and the number n of these waits.
// open are the waits that had not ended at the end of the time span.
func (w *waitLog) Lengths(fromNS, toNS int64, open []gvl.Wait) (told [len(WaitShares)]gvl.Bounded, n int64) {
	w.Sum.Reset()
	// soon after boot, a span can begin at a negative time
	for sec := max(fromNS, 0) / WaitSlotNS; sec <= toNS/WaitSlotNS; sec++ {
		if s := &w.slots[sec%int64(len(w.slots))]; s.second == sec {
			w.Sum.Merge(&s.waits)
		}
	}
	for i := range open {
		w.Sum.Add(&open[i])
	}
	copy(told[:], w.Sum.Told(WaitShares[:]...))
	return told, w.Sum.Count()
}

// WaitInWords returns a length of waits (told) as text. n is the number of waits. If n is zero, there is no length, and
// it returns "–".
func WaitInWords(n int64, told gvl.Bounded) string {
	if n == 0 {
		return "–"
	}
	return told.Duration()
}

// WaitKey identifies a wait.
type WaitKey struct {
	thread sampler.ThreadID
	endNS  int64
	Open   bool
}

func (e *WaitEvent) Key() WaitKey {
	if e.Open {
		return WaitKey{thread: e.Thread, Open: true}
	}
	return WaitKey{thread: e.Thread, endNS: e.EndNS}
}

// FromNS returns when the wait began.
func (e *WaitEvent) FromNS() int64 { return e.EndNS - e.LenNS }

const (
	// maxWaitEvents limits how many single waits are kept. They take up to 12 MB. With a thousand waits a second, this
	// number is reached in two minutes.
	maxWaitEvents = 1 << 17
	// keepEventsNS is for how long single waits are kept, in ns. Old waits are dropped in blocks of waitBlock waits.
	keepEventsNS = int64(10 * time.Minute)
	waitBlock    = 1 << 10
)

// WaitEvent is one wait for the GVL.
type WaitEvent struct {
	// EndNS is when the wait ended. LenNS is its most likely length. The true length is between LeastNS and MostNS.
	EndNS, LenNS    int64
	LeastNS, MostNS int64
	// HandNS, NoCPUNS, First and Last are the fields HandoverNS, NoCPUNS, FirstHolder and LastHolder of gvl.Wait. They
	// are set only for waits whose times are exactly known.
	HandNS, NoCPUNS int64
	Thread          sampler.ThreadID
	First, Last     sampler.ThreadID
	// Stack is the stack of the waiting thread. FirstStack is a stack of the first holder of the GVL during the wait:
	// the last one that ddtop knew when the wait ended. LastStack is the same for the last holder. A stack is zero if
	// it is not known.
	Stack, FirstStack, LastStack sampler.StackID
	Work                         sampler.WorkID // what the thread worked for. Zero means no work, or unknown work.
	Ractor                       sampler.RactorID
	After                        gvl.State // what the thread did before it wanted the GVL
	Exact                        bool      // both ends are known to the microsecond
	Open, Cut                    bool      // the wait has not ended; samples missed one of its ends
}

// wait returns the event as a gvl.Wait. It sets only the fields that gvl.Lengths uses.
func (e *WaitEvent) wait() *gvl.Wait {
	return &gvl.Wait{FromNS: e.FromNS(), ToNS: e.EndNS, LeastNS: e.LeastNS, MostNS: e.MostNS, InProgress: e.Open, Cut: e.Cut}
}

// Length returns the wait's length as the screen shows it.
func (e *WaitEvent) Length() gvl.Bounded { return e.wait().Told() }

// QueueNS returns how long the thread was in the queue for the GVL, before it was chosen as the next holder. It is
// right only for waits whose times are exactly known.
func (e *WaitEvent) QueueNS() int64 { return max(e.LenNS-e.HandNS, 0) }

// waitEvents are the latest waits that have ended, in the order of their ends.
type waitEvents struct {
	// blocks hold the waits. All blocks are full, except the last one, which has inLast waits.
	blocks []*[waitBlock]WaitEvent
	inLast int
	spare  *[waitBlock]WaitEvent
	// dropped is how many waits were dropped.
	dropped int
}

// add stores a wait. It returns the number under which the wait can be found again.
func (w *waitEvents) add(e WaitEvent) int {
	if len(w.blocks) == 0 || w.inLast == waitBlock {
		w.drop(e.EndNS - keepEventsNS)
		if w.spare == nil {
			w.spare = new([waitBlock]WaitEvent)
		}
		w.blocks, w.inLast, w.spare = append(w.blocks, w.spare), 0, nil
	}
	w.blocks[len(w.blocks)-1][w.inLast] = e
	w.inLast++
	return w.dropped + w.count() - 1
}

// drop removes the blocks whose waits all ended before a time, and makes room for another block. It is called when all
// blocks are full.
func (w *waitEvents) drop(beforeNS int64) {
	n := 0
	for n < len(w.blocks) && (len(w.blocks)-n >= maxWaitEvents/waitBlock || w.blocks[n][waitBlock-1].EndNS < beforeNS) {
		w.spare = w.blocks[n]
		n++
	}
	w.blocks = slices.Delete(w.blocks, 0, n)
	w.dropped += n * waitBlock
}

// count returns how many waits are kept.
func (w *waitEvents) count() int { return max(len(w.blocks)-1, 0)*waitBlock + w.inLast }

// numbered returns the wait with the number n (see add). It returns nil if this wait was dropped.
func (w *waitEvents) numbered(n int) *WaitEvent {
	if i := n - w.dropped; i >= 0 && i < w.count() {
		return w.event(i)
	}
	return nil
}

func (w *waitEvents) event(i int) *WaitEvent { return &w.blocks[i/waitBlock][i%waitBlock] }

// ForEach calls fn with the waits that ended in a time span, oldest first.
func (w *waitEvents) ForEach(fromNS, toNS int64, fn func(*WaitEvent)) {
	n := w.count()
	i := sort.Search(n, func(i int) bool { return w.event(i).EndNS >= fromNS })
	for ; i < n; i++ {
		e := w.event(i)
		if e.EndNS > toNS {
			return
		}
		fn(e)
	}
}

// FromNS returns the time from which on no wait is missing. It is zero if no wait was ever dropped.
func (w *waitEvents) FromNS() int64 {
	if w.dropped == 0 || w.count() == 0 {
		return 0
	}
	return w.event(0).EndNS
}

// ThreadWaits are the waits of one thread in a time span.
type ThreadWaits struct {
	// Lengths has the lengths of all waits, including waits that have not ended at the end of the time span.
	Lengths gvl.Lengths
	// Longest are the thread's longest waits, the longest first. Short is how many waits are left out of this list
	// because they are too short.
	Longest []WaitEvent
	Short   int
}

// ListOf says which single waits should be listed: at most AtMost waits of one thread, each at least AtLeastNS long. If
// Thread is zero, no wait is listed.
type ListOf struct {
	Thread    sampler.ThreadID
	AtLeastNS int64
	AtMost    int
}

// Count returns the number of waits.
func (t *ThreadWaits) Count() int64 { return t.Lengths.Count() }

// P99 returns the 99th percentile of the waits' lengths as text.
func (t *ThreadWaits) P99() string { return t.InWords(0.99) }

// InWords returns a quantile of the waits' lengths as text: a length that the share q of the waits did not exceed.
func (t *ThreadWaits) InWords(q float64) string {
	return WaitInWords(t.Count(), t.Lengths.Quantile(q))
}

// ByThread returns the waits in a time span, thread by thread. If waits of the first part of the time span may be
// missing, it leaves out this part. states are the threads' states at the end of the time span. Quantiles also include
// the waits that are not listed.
func (w *waitLog) ByThread(fromNS, toNS int64, states []gvl.ThreadState, list ListOf) map[sampler.ThreadID]*ThreadWaits {
	out := make(map[sampler.ThreadID]*ThreadWaits)
	of := func(id sampler.ThreadID) *ThreadWaits {
		t := out[id]
		if t == nil {
			t = new(ThreadWaits)
			out[id] = t
		}
		return t
	}
	w.ForEach(w.AllSince(fromNS), toNS, func(e *WaitEvent) {
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
		sorting.StableBy(t.Longest, func(x, y WaitEvent) int { return int(min(max(y.Length().NS-x.Length().NS, -1), 1)) })
		t.Longest = t.Longest[:min(len(t.Longest), list.AtMost)]
	}
	return out
}

// setExactBegin sets the exact time at which a thread's current wait began. This is needed because samples show only
// that the thread waited at the time of each sample.
func setExactBegin(states []gvl.ThreadState, id sampler.ThreadID, fromNS, atNS int64) {
	for i := range states {
		if s := &states[i]; s.Thread == id && s.State == gvl.Waiting {
			s.WaitsExactly(fromNS, atNS)
		}
	}
}

// setExactBegins sets the exact beginning of each wait that was in progress at a past moment, if it is known
// (setExactBegin).
func (w *waitLog) setExactBegins(states []gvl.ThreadState, atNS int64) {
	w.ForEach(atNS, math.MaxInt64, func(e *WaitEvent) {
		if e.Exact && e.FromNS() <= atNS {
			setExactBegin(states, e.Thread, e.FromNS(), atNS)
		}
	})
}
