package ui

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// waitBuckets is the number of classes that waits are counted in: eight to each doubling from 1 µs on, so a
	// quantile is right to 9 %.
	waitBuckets  = 8 * 32
	waitSlotNS   = int64(time.Second)
	minWaitNS    = int64(time.Microsecond)
	perDoubling  = 8
	maxWaitSlots = 3600
)

// waitLog counts finished waits for the GVL by length, a second at a time, so that a quantile over any stretch of the
// history can be told.
type waitLog struct {
	slots []waitSlot
	byID  map[sampler.ThreadID]prevState // scratch for when the order of threads changes
	prev  []prevState                    // parallel to the threads of the last sample
	// events are the single waits, with their threads.
	events waitEvents
}

type waitSlot struct {
	second int64
	counts [waitBuckets]uint32
	// longestNS is the longest of them.
	longestNS int64
}

type prevState struct {
	id      sampler.ThreadID
	waiting bool
	after   gvl.State
	since   int64
}

func newWaitLog(history time.Duration) waitLog {
	n := min(int64(history)/waitSlotNS+2, maxWaitSlots)
	return waitLog{slots: make([]waitSlot, n), byID: make(map[sampler.ThreadID]prevState)}
}

// feed notes which waits ended with this sample. In the steady state (threads in the order of the last sample) it
// allocates nothing.
func (w *waitLog) feed(nowNS int64, states []gvl.ThreadState) {
	same := len(states) <= len(w.prev)
	for i := 0; same && i < len(states); i++ {
		same = w.prev[i].id == states[i].Thread
	}
	if !same {
		clear(w.byID)
		for _, p := range w.prev {
			if p.waiting {
				w.byID[p.id] = p
			}
		}
	}
	for i := range states {
		s := &states[i]
		waiting := s.State == gvl.Waiting
		if !waiting {
			if same && w.prev[i].waiting {
				w.end(nowNS, s, &w.prev[i])
			} else if p, ok := w.byID[s.Thread]; !same && ok {
				w.end(nowNS, s, &p)
			}
		}
	}
	w.prev = w.prev[:0]
	for i := range states {
		w.prev = append(w.prev, prevState{id: states[i].Thread, waiting: states[i].State == gvl.Waiting, after: states[i].Detail.After, since: states[i].SinceNS})
	}
}

// end notes the end of a wait: s is the state after it.
func (w *waitLog) end(nowNS int64, s *gvl.ThreadState, before *prevState) {
	w.add(nowNS, s.SinceNS-before.since)
	w.events.add(waitEvent{endNS: nowNS, lenNS: s.SinceNS - before.since, thread: s.Thread, after: before.after})
}

func (w *waitLog) add(nowNS, lengthNS int64) {
	sec := nowNS / waitSlotNS
	s := &w.slots[sec%int64(len(w.slots))]
	if s.second != sec {
		*s = waitSlot{second: sec}
	}
	s.counts[waitBucket(lengthNS)]++
	s.longestNS = max(s.longestNS, lengthNS)
}

func waitBucket(ns int64) int {
	if ns < minWaitNS {
		return 0
	}
	us := uint64(ns / minWaitNS)
	exp := bits.Len64(us) - 1
	frac := int(float64(us)/float64(uint64(1)<<exp)*perDoubling) - perDoubling
	return min(exp*perDoubling+frac, waitBuckets-1)
}

// bucketNS is the upper edge of a bucket.
func bucketNS(b int) int64 {
	base := math.Exp2(float64(b / perDoubling))
	return int64(base * (1 + float64(b%perDoubling+1)/perDoubling) * float64(minWaitNS))
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
	var counts [waitBuckets]int64
	longest := int64(0)
	for sec := max(fromNS, 0) / waitSlotNS; sec <= toNS/waitSlotNS; sec++ { // soon after boot a stretch begins before time does
		s := &w.slots[sec%int64(len(w.slots))]
		if s.second != sec {
			continue
		}
		for b, c := range s.counts {
			counts[b] += int64(c)
			n += int64(c)
		}
		longest = max(longest, s.longestNS)
	}
	for _, o := range open {
		counts[waitBucket(o)]++
		n++
		longest = max(longest, o)
	}
	if n == 0 {
		return ns, 0
	}
	sum, at := int64(0), 0
	for b, c := range counts {
		for sum += c; at < len(waitShares) && sum >= int64(math.Ceil(waitShares[at]*float64(n))); at++ {
			ns[at] = min(bucketNS(b), longest)
		}
	}
	return ns, n
}

// waitInWords is one of the lengths of waits: "≥" when waits are going on, which may become longer, "–" without any.
func (f *figures) waitInWords(of int) string {
	if f.waits == 0 {
		return "–"
	}
	s := units.Duration(f.waitNS[of])
	if f.waitsOpen {
		s = "≥" + s
	}
	return s
}

// waitsText tells how many waits for the GVL there were, of all threads, and how long they were; "" without any.
func (f *figures) waitsText() string {
	if f.waits == 0 {
		return ""
	}
	return fmt.Sprintf("%s waits: p50 %s  p90 %s  p99 %s  max %s", units.Count(f.waits), f.waitInWords(waitP50), f.waitInWords(waitP90),
		f.waitInWords(waitP99), f.waitInWords(waitMax))
}
