package findings

import (
	"math"
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
)

// A call is one wait of a thread for a peer. An answer in two pieces is counted as two calls. A thread's counters are
// read every 10 ms, or every eighth of a longer wait. Several calls between two readings may be counted as one. So
// lengths may be too long, and numbers too small. While counters do not change, the thread is in a single call. Only
// this proven length decides whether calls are slow.

// callBucketBits is the width, in bits, of two of the numbers in an id of dimCall (a sum of calls). They are the
// buckets (gvl.Histogram) of the shortest and the longest possible length of a call. The id also has the number of a
// peer group.
const callBucketBits = 16

// callCell counts calls by length. The length of its calls is known to be between two buckets of a gvl.Histogram.
type callCell struct {
	shortest, longest uint16
	n                 int64
}

// calls counts the ended calls to a peer group. A peer group is all connections to one remote end.
type calls struct {
	cells   []callCell
	longest gvl.Histogram
}

// groupSleep stands in for a peer group: it counts sleeps in requests and jobs by length, in the same way as calls.
const groupSleep = math.MaxUint32

// called counts an ended wait in input or output, or an ended sleep during a request or job. It leaves out waits whose
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

// callLength returns a typical length of the calls to a peer group (all connections to one remote end), in ns. Calls of
// this length or more make up half of the time of all calls. callLength uses the lower bound of each length. A call in
// progress has its length so far. The result is zero if there is no call.
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
