package gvl

import "slices"

// A call is one wait of a thread for a remote end, from when it began to wait until it went on: an answer that comes in two pieces
// counts as two. What is shorter than the time between two looks at a thread's counters (10 ms, an eighth of longer waits) may
// be counted together with the next one, so lengths are at most too long and numbers at most too small.

// dimCall's id holds a peer group above these bits and a Histogram's bucket in them.
const callBucketBits = 16

// called counts a wait in input or output that has ended, unless its beginning was not seen.
func (c *collector) called(w *watch, toNS int64) {
	if w.group == 0 || w.idle || w.sinceNS <= c.sinceNS || !w.began || toNS <= w.sinceNS || len(c.cur.sums) >= maxSums {
		return
	}
	c.cur.sums[sumKey{dim: dimCall, id: uint64(w.group)<<callBucketBits | uint64(histBucket(toNS-w.sinceNS))}]++
}

// addCalls adds calls of one length to a remote end.
func (w *window) addCalls(id uint64, n int64) {
	h := w.calls[uint32(id>>callBucketBits)]
	if h == nil {
		h = new(Histogram)
		w.calls[uint32(id>>callBucketBits)] = h
	}
	bucket := id & (1<<callBucketBits - 1)
	h.count(uint16(bucket), uint32(n))
	h.n += n
	h.maxNS = max(h.maxNS, histUpper(int(bucket)))
}

// callLength is the length of the calls to a remote end in which most of the time is spent: half of it in calls that are as long or
// longer, those that go on counted with what they have lasted so far. 0: there is none.
func (w *window) callLength(group uint32) int64 {
	var lengths []histCell
	if h := w.calls[group]; h != nil {
		lengths = slices.Clone(h.cells)
	}
	for i := range w.states {
		ts := &w.states[i]
		if x := w.watch(ts.Thread); x != nil && ts.State == IO && !x.idle && x.group == group {
			lengths = append(lengths, histCell{uint16(histBucket(ts.DurationNS())), 1})
		}
	}
	slices.SortFunc(lengths, func(a, b histCell) int { return int(a.bucket) - int(b.bucket) })
	var all, sum int64
	for _, c := range lengths {
		all += histUpper(int(c.bucket)) * int64(c.count)
	}
	for _, c := range lengths {
		if sum += histUpper(int(c.bucket)) * int64(c.count); 2*sum >= all {
			return histUpper(int(c.bucket))
		}
	}
	return 0
}
