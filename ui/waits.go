package ui

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

const (
	waitSlotNS   = int64(time.Second)
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
	sum   gvl.Lengths
	// events are the last single waits, with their threads.
	events waitEvents
	// holders are the stacks that threads had when they held the GVL last, works what threads worked for, by their slots.
	holders map[sampler.ThreadID]sampler.StackID
	works   []sampler.WorkID
}

type waitSlot struct {
	second int64
	waits  gvl.Lengths
	// longest is a heap of the longest waits, the shortest of them first.
	longest []waitEvent
}

func newWaitLog(history time.Duration) *waitLog {
	n := min(int64(history)/waitSlotNS+2, maxWaitSlots)
	return &waitLog{slots: make([]waitSlot, n), holders: make(map[sampler.ThreadID]sampler.StackID)}
}

// Waited notes a wait that is over.
func (w *waitLog) Waited(x *gvl.Wait) {
	e := waitEvent{endNS: x.ToNS, lenNS: x.NS(), leastNS: x.LeastNS, mostNS: x.MostNS, cut: x.Cut, handNS: x.HandoverNS, noCPUNS: x.NoCPUNS, thread: x.Thread, first: x.FirstHolder, last: x.LastHolder,
		stack: x.Before.Stack, firstStack: w.holders[x.FirstHolder], lastStack: w.holders[x.LastHolder], ractor: x.Before.Ractor, after: x.After, exact: x.Exact}
	if x.Slot >= 0 && x.Slot < len(w.works) {
		e.work = w.works[x.Slot]
	}
	w.add(&e)
	w.events.add(e)
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

func (w *waitLog) add(e *waitEvent) {
	sec := e.endNS / waitSlotNS
	s := &w.slots[sec%int64(len(w.slots))]
	if s.second != sec {
		s.second, s.longest = sec, s.longest[:0]
		s.waits.Reset()
	}
	s.waits.Add(e.wait())
	s.keep(e)
}

// keep keeps a wait if it is one of the longest of its second.
func (s *waitSlot) keep(e *waitEvent) {
	if len(s.longest) < longestEach {
		s.longest = append(s.longest, *e)
		if len(s.longest) == longestEach {
			slices.SortFunc(s.longest, func(x, y waitEvent) int { return cmp.Compare(x.lenNS, y.lenNS) }) // a sorted list is a heap
		}
		return
	}
	if e.lenNS <= s.longest[0].lenNS {
		return
	}
	s.longest[0] = *e
	for i := 0; ; {
		low := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < longestEach && s.longest[c].lenNS < s.longest[low].lenNS {
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

// each calls fn with the waits of a stretch of time that are kept: all that ended lately, and of before those that were the longest of
// their second.
func (w *waitLog) each(fromNS, toNS int64, fn func(*waitEvent)) {
	all := max(w.events.fromNS(), fromNS)
	for sec := max(fromNS, 0) / waitSlotNS; sec <= min(all, toNS)/waitSlotNS; sec++ {
		s := &w.slots[sec%int64(len(w.slots))]
		if s.second != sec {
			continue
		}
		for i := range s.longest {
			if e := &s.longest[i]; e.endNS >= fromNS && e.endNS < all && e.endNS <= toNS {
				fn(e)
			}
		}
	}
	w.events.each(all, toNS, fn)
}

// waitShares are the shares of the waits whose lengths are told: half, 90 %, 99 % and all of them.
var waitShares = [...]float64{0.5, 0.9, 0.99, 1}

// Indexes of waitShares.
const (
	waitP50 = iota
	waitP90
	waitP99
	waitMax
)

// lengths returns the lengths that each of waitShares of the waits of a stretch of time did not exceed, waits still going on
// at its end included, and how many waits that is.
func (w *waitLog) lengths(fromNS, toNS int64, open []gvl.Wait) (told [len(waitShares)]gvl.Bounded, n int64) {
	w.sum.Reset()
	for sec := max(fromNS, 0) / waitSlotNS; sec <= toNS/waitSlotNS; sec++ { // soon after boot a stretch begins before time does
		if s := &w.slots[sec%int64(len(w.slots))]; s.second == sec {
			w.sum.Merge(&s.waits)
		}
	}
	for i := range open {
		w.sum.Add(&open[i])
	}
	copy(told[:], w.sum.Told(waitShares[:]...))
	return told, w.sum.Count()
}

// waitInWords is the length of one of n waits; "–" without any.
func waitInWords(n int64, told gvl.Bounded) string {
	if n == 0 {
		return "–"
	}
	return told.Duration()
}

// waitInWords is one of the lengths of waits.
func (f *figures) waitInWords(of int) string {
	return f.told(sampler.FigureWaits, waitInWords(f.waits, f.waitTold[of]))
}

// waitsText says how many waits for the GVL there were, of all threads, and how long they were; "" without any.
func (f *figures) waitsText() string {
	if f.waits == 0 || !f.enough(sampler.FigureWaits) {
		return ""
	}
	return fmt.Sprintf("%s waits: p50 %s  p90 %s  p99 %s  max %s", units.Count(f.waits), f.waitInWords(waitP50), f.waitInWords(waitP90),
		f.waitInWords(waitP99), f.waitInWords(waitMax))
}
