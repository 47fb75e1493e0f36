package ui

import (
	"fmt"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
)

const (
	waitSlotNS   = int64(time.Second)
	maxWaitSlots = 3600
)

// waitLog counts finished waits for the GVL by length, a second at a time, so that a quantile over any stretch of the
// history can be told.
type waitLog struct {
	gvl.Ignore
	slots []waitSlot
	sum   gvl.Histogram // of lengths
	// events are the single waits, with their threads.
	events waitEvents
}

type waitSlot struct {
	second int64
	waits  gvl.Histogram
}

func newWaitLog(history time.Duration) *waitLog {
	n := min(int64(history)/waitSlotNS+2, maxWaitSlots)
	return &waitLog{slots: make([]waitSlot, n)}
}

// Waited notes a wait that is over.
func (w *waitLog) Waited(x *gvl.Wait) {
	w.add(x.ToNS, x.NS())
	w.events.add(waitEvent{endNS: x.ToNS, lenNS: x.NS(), thread: x.Thread, after: x.After})
}

func (w *waitLog) add(endNS, lengthNS int64) {
	sec := endNS / waitSlotNS
	s := &w.slots[sec%int64(len(w.slots))]
	if s.second != sec {
		s.second = sec
		s.waits.Reset()
	}
	s.waits.Add(lengthNS)
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
// at its end (given by their lengths so far) included, and how many waits that is. The longest is exact.
func (w *waitLog) lengths(fromNS, toNS int64, open []int64) (ns [len(waitShares)]int64, n int64) {
	w.sum.Reset()
	for sec := max(fromNS, 0) / waitSlotNS; sec <= toNS/waitSlotNS; sec++ { // soon after boot a stretch begins before time does
		if s := &w.slots[sec%int64(len(w.slots))]; s.second == sec {
			w.sum.Merge(&s.waits)
		}
	}
	for _, o := range open {
		w.sum.Add(o)
	}
	for i, q := range waitShares {
		ns[i] = w.sum.Quantile(q)
	}
	n, _ = w.sum.Count()
	return ns, n
}

// waitInWords is the length of one of n waits: "≥" when some are going on, which may become longer, "–" without any.
func waitInWords(n, ns int64, open bool) string {
	if n == 0 {
		return "–"
	}
	s := units.Duration(ns)
	if open {
		s = "≥" + s
	}
	return s
}

// waitInWords is one of the lengths of waits.
func (f *figures) waitInWords(of int) string { return waitInWords(f.waits, f.waitNS[of], f.waitsOpen) }

// waitsText says how many waits for the GVL there were, of all threads, and how long they were; "" without any.
func (f *figures) waitsText() string {
	if f.waits == 0 {
		return ""
	}
	return fmt.Sprintf("%s waits: p50 %s  p90 %s  p99 %s  max %s", units.Count(f.waits), f.waitInWords(waitP50), f.waitInWords(waitP90),
		f.waitInWords(waitP99), f.waitInWords(waitMax))
}
