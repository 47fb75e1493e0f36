package findings

import (
	"math"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
)

// A call is one wait of a thread for a remote end, from when it began to wait until it went on: an answer that comes in two pieces
// counts as two. What is shorter than the time between two looks at a thread's counters (10 ms, an eighth of longer waits; more
// where rates have fallen) may be counted together with the next one, so lengths are at most too long and numbers at most too
// small. What a call has lasted at least is known too, from readings between which the thread did not move: that decides whether
// calls are slow.

// dimCall's id is a peer group above two buckets of a Histogram: of the shortest length and of the longest.
const callBucketBits = 16

// callCell counts calls whose length is between two buckets of a Histogram.
type callCell struct {
	shortest, longest uint16
	n                 int64
}

// calls are the ended calls to a remote end.
type calls struct {
	cells   []callCell
	longest gvl.Histogram
}

// groupSleep is the peer group of sleep in the middle of work, whose length counts as calls do.
const groupSleep = math.MaxUint32

// called counts an ended wait in input or output, or an ended sleep in the middle of work. It counts neither if its
// beginning was not seen.
func (c *collector) called(w *watch, toNS int64) {
	if w.group == 0 || w.idle || w.sinceNS <= c.sinceNS || !w.began || toNS <= w.sinceNS || len(c.cur.sums) >= maxSums {
		return
	}
	longest := toNS - w.sinceNS
	id := uint64(w.group)<<(2*callBucketBits) | uint64(gvl.Bucket(min(w.stillNS, longest)))<<callBucketBits | uint64(gvl.Bucket(longest))
	c.cur.sums[sumKey{dim: dimCall, id: id}]++
}

func (w *past) addCalls(id uint64, n int64) {
	group, cell := uint32(id>>(2*callBucketBits)), callCell{uint16(id >> callBucketBits), uint16(id), n}
	of := w.calls[group]
	if of == nil {
		of = new(calls)
		w.calls[group] = of
	}
	of.cells = append(of.cells, cell)
	of.longest.AddBucket(cell.longest, n)
}

// callLength returns the length of the calls to a remote end that take most of the time, in ns. Half of the time is in
// calls that are known to be as long or longer. Calls in progress count with their length so far. It is zero if there
// is no call.
func (w *window) callLength(group uint32) int64 {
	var cells []callCell
	if of := w.calls[group]; of != nil {
		cells = slices.Clone(of.cells)
	}
	for i := range w.states {
		ts := &w.states[i]
		if x := w.watch(ts.Thread); x != nil && (ts.State == gvl.IO || group == groupSleep) && !x.idle && x.group == group {
			d := ts.DurationNS()
			cells = append(cells, callCell{uint16(gvl.Bucket(min(ts.StillNS, d))), uint16(gvl.Bucket(d)), 1})
		}
	}
	sorting.By(cells, func(a, b callCell) int { return int(b.shortest) - int(a.shortest) })
	var all, sum int64
	for _, c := range cells {
		all += gvl.BucketUpper(int(c.longest)) * c.n
	}
	for _, c := range cells {
		if sum += gvl.BucketUpper(int(c.longest)) * c.n; 2*sum >= all {
			return gvl.BucketLower(int(c.shortest))
		}
	}
	return 0
}
