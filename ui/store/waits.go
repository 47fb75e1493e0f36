package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	WaitSlotNS   = int64(time.Second)
	maxWaitSlots = 3600
	// longestEach is how many of the longest waits that ended in a second are kept, when it is too long ago for all.
	longestEach = 32
	// maxHolderStacks bounds the threads whose last stack as holder is remembered.
	maxHolderStacks = 1 << 12
)

// waitLog counts finished waits for the GVL by length, a second at a time, so that a quantile over any stretch of the
// history can be told.
type waitLog struct {
	gvl.Ignore
	slots []waitSlot
	Sum   gvl.Lengths
	// Events are the last single waits, with their threads.
	Events waitEvents
	// holders are the stacks that threads had when they held the GVL last, works what threads worked for, by their slots.
	holders map[sampler.ThreadID]sampler.StackID
	works   []sampler.WorkID
}

type waitSlot struct {
	second int64
	waits  gvl.Lengths
	// longest is a heap of the longest waits, the shortest of them first.
	longest []WaitEvent
}

func NewWaitLog(history time.Duration) *waitLog {
	n := min(int64(history)/WaitSlotNS+2, maxWaitSlots)
	return &waitLog{slots: make([]waitSlot, n), holders: make(map[sampler.ThreadID]sampler.StackID)}
}

// Waited notes a wait that is over.
func (w *waitLog) Waited(x *gvl.Wait) {
	e := WaitEvent{EndNS: x.ToNS, LenNS: x.NS(), LeastNS: x.LeastNS, MostNS: x.MostNS, Cut: x.Cut, HandNS: x.HandoverNS, NoCPUNS: x.NoCPUNS, Thread: x.Thread, First: x.FirstHolder, Last: x.LastHolder,
		Stack: x.Before.Stack, FirstStack: w.holders[x.FirstHolder], LastStack: w.holders[x.LastHolder], Ractor: x.Before.Ractor, After: x.After, Exact: x.Exact}
	if x.Slot >= 0 && x.Slot < len(w.works) {
		e.Work = w.works[x.Slot]
	}
	w.Add(&e)
	w.Events.add(e)
}

// Lock notes the stack of a holder.
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

// Interval notes what a thread works for.
func (w *waitLog) Interval(i *gvl.Interval) {
	for i.Slot >= len(w.works) {
		w.works = append(w.works, 0)
	}
	w.works[i.Slot] = i.Serving.Work
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

// keep keeps a wait if it is one of the longest of its second.
func (s *waitSlot) keep(e *WaitEvent) {
	if len(s.longest) < longestEach {
		s.longest = append(s.longest, *e)
		if len(s.longest) == longestEach {
			slices.SortFunc(s.longest, func(x, y WaitEvent) int { return cmp.Compare(x.LenNS, y.LenNS) }) // a sorted list is a heap
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

// Each calls fn with the waits of a stretch of time that are kept: all that ended lately, and of before those that were the longest of
// their second.
func (w *waitLog) Each(fromNS, toNS int64, fn func(*WaitEvent)) {
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
	w.Events.Each(all, toNS, fn)
}

// WaitShares are the shares of the waits whose lengths are told: half, 90 %, 99 % and all of them.
var WaitShares = [...]float64{0.5, 0.9, 0.99, 1}

// Indexes of waitShares.
const (
	WaitP50 = iota
	WaitP90
	WaitP99
	WaitMax
)

// Lengths returns the lengths that each of waitShares of the waits of a stretch of time did not exceed, waits still going on
// at its end included, and how many waits that is.
func (w *waitLog) Lengths(fromNS, toNS int64, open []gvl.Wait) (told [len(WaitShares)]gvl.Bounded, n int64) {
	w.Sum.Reset()
	for sec := max(fromNS, 0) / WaitSlotNS; sec <= toNS/WaitSlotNS; sec++ { // soon after boot a stretch begins before time does
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

// WaitInWords is the length of one of n waits; "–" without any.
func WaitInWords(n int64, told gvl.Bounded) string {
	if n == 0 {
		return "–"
	}
	return told.Duration()
}

// WaitKey names a wait.
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

// FromNS is when the wait began.
func (e *WaitEvent) FromNS() int64 { return e.EndNS - e.LenNS }
