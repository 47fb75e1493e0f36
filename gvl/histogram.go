package gvl

import (
	"math/bits"
	"slices"
)

// A Histogram has histSub buckets for each power of two. So if a quantile is rounded to the edge of a bucket, its error
// is at most 1/histSub (3 %). The first bucket has all durations below 1<<histMinBits ns. The last bucket has all
// durations of 1<<histMaxBits ns or more.
const (
	histSub     = 32
	histSubBits = 5
	histMinBits = 10 // 1,024 ns
	histMaxBits = 43 // 2.4 hours
	histBuckets = (histMaxBits-histMinBits)*histSub + 1
)

// Histogram counts durations in buckets. The zero value is empty. It takes eight bytes for each bucket in use.
type Histogram struct {
	cells    []histCell // ascending by bucket
	n, maxNS int64
}

type histCell struct {
	bucket uint16
	count  uint32
}

// Bucket returns the bucket of a duration in ns.
func Bucket(ns int64) int {
	if ns < 1<<histMinBits {
		return 0
	}
	exp := bits.Len64(uint64(ns)) - 1
	if exp >= histMaxBits {
		return histBuckets - 1
	}
	sub := int(uint64(ns)>>(exp-histSubBits)) & (histSub - 1)
	return 1 + (exp-histMinBits)*histSub + sub
}

// BucketUpper returns the upper edge of a bucket, in ns.
func BucketUpper(b int) int64 {
	if b == 0 {
		return 1 << histMinBits
	}
	b--
	exp, sub := b/histSub+histMinBits, b%histSub
	return 1<<exp + int64(sub+1)<<(exp-histSubBits)
}

// BucketLower returns the lower edge of a bucket, in ns.
func BucketLower(b int) int64 {
	if b == 0 {
		return 0
	}
	return BucketUpper(b - 1)
}

// Add counts a duration in ns.
func (h *Histogram) Add(ns int64) {
	h.count(uint16(Bucket(ns)), 1)
	h.n++
	h.maxNS = max(h.maxNS, ns)
}

// AddBucket counts n durations of one bucket.
func (h *Histogram) AddBucket(bucket uint16, n int64) {
	h.count(bucket, uint32(n))
	h.n += n
	h.maxNS = max(h.maxNS, BucketUpper(int(bucket)))
}

func (h *Histogram) count(bucket uint16, n uint32) { h.countFrom(0, bucket, n) }

// countFrom does the same as count, for a caller that knows that the bucket's cell is not before index i. It searches
// only from i on, and returns the cell's index.
func (h *Histogram) countFrom(i int, bucket uint16, n uint32) int {
	for end := len(h.cells); i < end; { // slices.BinarySearchFunc took most of the time here
		if middle := int(uint(i+end) >> 1); h.cells[middle].bucket < bucket {
			i = middle + 1
		} else {
			end = middle
		}
	}
	if i == len(h.cells) || h.cells[i].bucket != bucket {
		h.cells = slices.Insert(h.cells, i, histCell{bucket: bucket})
	}
	h.cells[i].count += n
	return i
}

// Merge adds another histogram.
func (h *Histogram) Merge(o *Histogram) {
	i := 0
	for _, c := range o.cells {
		for i < len(h.cells) && h.cells[i].bucket < c.bucket { // both are sorted
			i++
		}
		if i == len(h.cells) || h.cells[i].bucket != c.bucket {
			h.cells = slices.Insert(h.cells, i, histCell{bucket: c.bucket})
		}
		h.cells[i].count += c.count
	}
	h.n += o.n
	h.maxNS = max(h.maxNS, o.maxNS)
}

// Reset empties the histogram and keeps its memory.
func (h *Histogram) Reset() { *h = Histogram{cells: h.cells[:0]} }

func (h *Histogram) clone() Histogram {
	return Histogram{cells: slices.Clone(h.cells), n: h.n, maxNS: h.maxNS}
}

// Count returns how many durations were counted, and the longest of them.
func (h *Histogram) Count() (n, maxNS int64) { return h.n, h.maxNS }

// Quantile returns the duration that a share q (0 to 1) of the durations did not exceed. It takes the duration at the
// nearest rank, rounded up to the edge of its bucket. The result is never above the longest duration.
func (h *Histogram) Quantile(q float64) int64 {
	_, upper := h.quantile(q)
	return upper
}

// quantile returns the two edges of the bucket that contains a quantile. If the quantile is the longest duration, which
// is known exactly, both are this duration.
func (h *Histogram) quantile(q float64) (lower, upper int64) {
	if h.n == 0 {
		return 0, 0
	}
	rank := int64(q * float64(h.n))
	if float64(rank) < q*float64(h.n) || rank == 0 {
		rank++
	}
	var sum int64
	for _, c := range h.cells {
		if sum += int64(c.count); sum >= rank && rank < h.n {
			return BucketLower(int(c.bucket)), min(BucketUpper(int(c.bucket)), h.maxNS)
		}
	}
	return h.maxNS, h.maxNS
}

// Counts adds to out how many durations lie between edges (in ns, ascending). out[0] counts the durations below
// edges[0]. out[i+1] counts those from edges[i] up to edges[i+1]. All durations of a bucket count as the middle of the
// bucket.
func (h *Histogram) Counts(edges, out []int64) {
	for _, c := range h.cells {
		b := int(c.bucket)
		mid := (BucketLower(b) + BucketUpper(b)) / 2
		i, at := slices.BinarySearch(edges, mid)
		if at {
			i++
		}
		out[i] += int64(c.count)
	}
}
