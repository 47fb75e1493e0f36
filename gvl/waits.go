package gvl

import "math/bits"

// A histogram of durations with buckets that grow with the duration: histSub buckets for each power of two, so that a
// quantile is right to 1/histSub (3 %). Durations under histMinNS share the first bucket, those beyond the last power
// of two the last.
const (
	histSub     = 32
	histSubBits = 5
	histMinBits = 10 // 1,024 ns
	histMaxBits = 43 // 2.4 hours
	histBuckets = (histMaxBits-histMinBits)*histSub + 1
)

type histogram struct {
	counts [histBuckets]uint32
	n      int64
	maxNS  int64
}

func histBucket(ns int64) int {
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

// histUpper is the upper edge of a bucket, in ns.
func histUpper(b int) int64 {
	if b == 0 {
		return 1 << histMinBits
	}
	b--
	exp, sub := b/histSub+histMinBits, b%histSub
	return 1<<exp + int64(sub+1)<<(exp-histSubBits)
}

func (h *histogram) add(ns int64) {
	h.counts[histBucket(ns)]++
	h.n++
	h.maxNS = max(h.maxNS, ns)
}

// packedHistogram is a histogram without its empty buckets: what is kept of the many threads that have ended.
type packedHistogram struct {
	cells    []histCell
	n, maxNS int64
}

type histCell struct {
	bucket uint16
	count  uint32
}

// pack returns a histogram in little memory; nil for nil.
func (h *histogram) pack() *packedHistogram {
	if h == nil {
		return nil
	}
	p := &packedHistogram{n: h.n, maxNS: h.maxNS}
	for b, n := range h.counts {
		if n != 0 {
			p.cells = append(p.cells, histCell{uint16(b), n})
		}
	}
	return p
}

// unpack returns the histogram that was packed; nil for nil.
func (p *packedHistogram) unpack() *histogram {
	if p == nil {
		return nil
	}
	h := &histogram{n: p.n, maxNS: p.maxNS}
	for _, c := range p.cells {
		h.counts[c.bucket] = c.count
	}
	return h
}

func (h *histogram) merge(o *histogram) {
	if o == nil {
		return
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.n += o.n
	h.maxNS = max(h.maxNS, o.maxNS)
}

// quantile returns the duration that a share q (0 to 1) of the entries does not exceed: the nearest rank, rounded up to
// the edge of its bucket but never beyond the longest entry.
func (h *histogram) quantile(q float64) int64 {
	if h.n == 0 {
		return 0
	}
	rank := int64(q * float64(h.n))
	if float64(rank) < q*float64(h.n) || rank == 0 {
		rank++
	}
	var sum int64
	for i, n := range h.counts {
		if sum += int64(n); sum >= rank {
			return min(histUpper(i), h.maxNS)
		}
	}
	return h.maxNS
}
