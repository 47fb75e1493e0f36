package ui

import (
	"math"
	"math/bits"
	"time"

	"github.com/ddtop/ddtop/gvl"
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

// quantile returns the length that the share q of the waits of a stretch of time did not exceed, waits still going on
// at its end (given by their lengths so far) included, and how many waits that is.
func (w *waitLog) quantile(q float64, fromNS, toNS int64, open []int64) (ns, n int64) {
	var counts [waitBuckets]int64
	for sec := fromNS / waitSlotNS; sec <= toNS/waitSlotNS; sec++ {
		s := &w.slots[sec%int64(len(w.slots))]
		if s.second != sec {
			continue
		}
		for b, c := range s.counts {
			counts[b] += int64(c)
			n += int64(c)
		}
	}
	for _, o := range open {
		counts[waitBucket(o)]++
		n++
	}
	if n == 0 {
		return 0, 0
	}
	rank := int64(math.Ceil(q * float64(n)))
	for b, c := range counts {
		if rank -= c; rank <= 0 {
			return bucketNS(b), n
		}
	}
	return bucketNS(waitBuckets - 1), n
}
