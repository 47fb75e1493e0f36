// Package calls counts calls to peers by length. A call is one wait of a thread for a peer. An answer in two pieces
// counts as two calls.
//
// A waiting thread's counters are read every 10 ms. In a longer wait, the interval is an eighth of the time waited.
// Several calls between two readings may count as one. So lengths may be too long, and numbers too small. While
// counters do not change, the thread is in a single call. Only this proven length decides whether calls are slow.
package calls

import (
	"slices"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
)

// bucketBits is the width, in bits, of two of the numbers in an ID: the buckets (gvl.Histogram) of the shortest and of
// the longest possible length. The ID also has the number of a peer group.
const bucketBits = 16

// Cell counts calls by length. The length of its calls is known to be between two buckets of a gvl.Histogram.
type Cell struct {
	shortest, longest uint16
	n                 int64
}

// One returns the Cell of a single call, of which the shortest and the longest possible length in ns are known.
func One(shortest, longest int64) Cell {
	return Cell{uint16(gvl.Bucket(min(shortest, longest))), uint16(gvl.Bucket(longest)), 1}
}

// ID returns a number for calls of the same length to the same peer group. A peer group is all connections to one
// remote end.
func (c Cell) ID(group uint32) uint64 {
	return uint64(group)<<(2*bucketBits) | uint64(c.shortest)<<bucketBits | uint64(c.longest)
}

// Group has the ended calls to one peer group. The field Longest counts the calls by the longest possible length.
type Group struct {
	cells   []Cell
	Longest gvl.Histogram
}

// Calls are the ended calls, by peer group.
type Calls map[uint32]*Group

// Add adds n calls with an ID.
func (c Calls) Add(id uint64, n int64) {
	group, cell := uint32(id>>(2*bucketBits)), Cell{uint16(id >> bucketBits), uint16(id), n}
	g := c[group]
	if g == nil {
		g = new(Group)
		c[group] = g
	}
	g.cells = append(g.cells, cell)
	g.Longest.AddBucket(cell.longest, n)
}

// Length returns a typical length of the calls to a peer group, in ns. Calls of this length or more make up half of the
// time of all calls. Length uses the lower bound of each length. The calls in progress have their lengths so far. The
// result is zero if there is no call.
func (c Calls) Length(group uint32, inProgress []Cell) int64 {
	cells := inProgress
	if g := c[group]; g != nil {
		cells = append(slices.Clone(g.cells), inProgress...)
	}
	sorting.By(cells, func(a, b Cell) int { return int(b.shortest) - int(a.shortest) })
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
