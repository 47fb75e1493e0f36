package gvl

import (
	"math/bits"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// unitsPerColumn is the resolution of a kept column: 2 µs of 100 ms.
	unitsPerColumn = 50_000
	// chunkColumns is how many columns are stored together. A chunk whose columns are each one state from end to end,
	// and all the same, takes a few words: idle threads cost almost nothing.
	chunkColumns = 64
)

// packed is one kept column of a thread: its time by state in units.
type packed [NumStates]uint16

type chunk struct {
	index int64
	// full has a bit for each column that is wholly in state; it counts while mixed is false.
	full  uint64
	state State
	mixed bool
	cells *cells
}

// cells are the columns of a chunk that is mixed, and their sum.
type cells struct {
	column [chunkColumns]packed
	sum    [NumStates]uint32
}

// row is one thread's past and its open column.
type row struct {
	id     sampler.ThreadID
	ractor sampler.RactorID
	lane   *ractorLane
	// listed: in the last sample. active: has an open column.
	listed, active bool

	state   State
	segNS   int64
	runNS   int64 // since when the row is in this state, and for this reason
	pending bool
	open    [NumStates]int64

	chunks            []chunk
	firstCol, lastCol int64
}

// newRow returns a row that keeps columns columns; none with 0: it is counted, not kept.
func newRow(id sampler.ThreadID, columns int) *row {
	r := &row{id: id, firstCol: -1, lastCol: -1}
	if columns == 0 {
		return r
	}
	r.chunks = make([]chunk, columns/chunkColumns+2)
	for i := range r.chunks {
		r.chunks[i].index = -1
	}
	return r
}

// flush adds the segment going on to the open column, up to at.
func (r *row) flush(at int64) {
	if d := at - r.segNS; d > 0 {
		r.open[r.state] += d
		r.segNS = at
	}
}

// close stores the open column as column col.
func (r *row) close(col, columnNS int64) {
	var sum int64
	dominant, open := Unknown, r.open
	for s, v := range open {
		sum += v
		if v > open[dominant] {
			dominant = State(s)
		}
	}
	r.open = [NumStates]int64{}
	if sum == 0 || len(r.chunks) == 0 {
		return
	}
	c := &r.chunks[(col/chunkColumns)%int64(len(r.chunks))]
	if c.index != col/chunkColumns {
		c.index, c.full, c.mixed = col/chunkColumns, 0, false
	}
	i := col % chunkColumns
	if open[dominant] == columnNS && (!c.mixed && (c.full == 0 || c.state == dominant)) {
		c.full |= 1 << i
		c.state = dominant
	} else {
		c.expand()
		p := pack(&open, sum, dominant, columnNS)
		c.cells.column[i] = p
		for s, u := range p {
			c.cells.sum[s] += uint32(u)
		}
	}
	if r.firstCol < 0 {
		r.firstCol = col
	}
	r.lastCol = col
}

// pack rounds a column to units. What rounding leaves goes to the dominant state, so that the sum is kept, and a state
// that was seen at all keeps a unit, so that a short wait is not lost.
func pack(ns *[NumStates]int64, sum int64, dominant State, columnNS int64) packed {
	var p packed
	total := (sum*unitsPerColumn + columnNS/2) / columnNS
	for s, v := range ns {
		if v == 0 || State(s) == dominant {
			continue
		}
		u := max((v*unitsPerColumn+columnNS/2)/columnNS, 1)
		p[s] = uint16(u)
		total -= u
	}
	p[dominant] = uint16(max(total, 1))
	return p
}

// expand turns a chunk of one state into cells.
func (c *chunk) expand() {
	if c.mixed {
		return
	}
	if c.cells == nil {
		c.cells = new(cells)
	} else {
		*c.cells = cells{}
	}
	for i := range c.cells.column {
		if c.full&(1<<i) != 0 {
			c.cells.column[i][c.state] = unitsPerColumn
		}
	}
	c.cells.sum[c.state] = uint32(bits.OnesCount64(c.full)) * unitsPerColumn
	c.mixed = true
}

// add adds num/den of a closed column to ns.
func (r *row) add(ns *[NumStates]int64, col, num, den, columnNS int64) {
	if len(r.chunks) == 0 {
		return
	}
	c := &r.chunks[(col/chunkColumns)%int64(len(r.chunks))]
	if c.index != col/chunkColumns {
		return
	}
	i := col % chunkColumns
	if !c.mixed {
		if c.full&(1<<i) != 0 {
			ns[c.state] += scale(columnNS, num, den)
		}
		return
	}
	for s, u := range c.cells.column[i] {
		switch {
		case u == 0:
		case num == den:
			ns[s] += int64(u) * columnNS / unitsPerColumn
		default:
			ns[s] += scale(int64(u)*columnNS/unitsPerColumn, num, den)
		}
	}
}

// addWhole adds the closed columns from first up to but not including end to ns.
func (r *row) addWhole(ns *[NumStates]int64, first, end, columnNS int64) {
	if len(r.chunks) == 0 || r.firstCol < 0 {
		return
	}
	first, end = max(first, r.firstCol), min(end, r.lastCol+1)
	for first < end {
		index := first / chunkColumns
		next := min((index+1)*chunkColumns, end)
		c := &r.chunks[index%int64(len(r.chunks))]
		from, n := first-index*chunkColumns, next-first
		first = next
		switch {
		case c.index != index:
		case !c.mixed:
			if full := c.full >> from << (chunkColumns - n); full != 0 {
				ns[c.state] += int64(bits.OnesCount64(full)) * columnNS
			}
		case n == chunkColumns:
			for s, u := range c.cells.sum {
				ns[s] += int64(u) * columnNS / unitsPerColumn
			}
		case n == 1:
			for s, u := range &c.cells.column[from] {
				ns[s] += int64(u) * columnNS / unitsPerColumn
			}
		default:
			var sum [NumStates]uint32
			for i := range n {
				for s, u := range &c.cells.column[from+i] {
					sum[s] += uint32(u)
				}
			}
			for s, u := range sum {
				ns[s] += int64(u) * columnNS / unitsPerColumn
			}
		}
	}
}

// spentIn returns for how long the thread was in a state in a closed column.
func (r *row) spentIn(st State, col, columnNS int64) int64 {
	var ns [NumStates]int64
	r.addWhole(&ns, col, col+1, columnNS)
	return ns[st]
}

// steadyFrom returns the first of the closed columns up to col that the thread spent in one state to the end of col, and
// not before oldest; col+1 where there is none.
func (r *row) steadyFrom(st State, col, oldest, columnNS int64) int64 {
	if r.firstCol < 0 {
		return col + 1
	}
	for oldest = max(oldest, r.firstCol); col >= oldest; {
		index := col / chunkColumns
		c := &r.chunks[index%int64(len(r.chunks))]
		if c.index == index && !c.mixed && c.state == st && c.full == 1<<chunkColumns-1 {
			col = index*chunkColumns - 1
			continue
		}
		if r.spentIn(st, col, columnNS) < columnNS {
			return col + 1
		}
		col--
	}
	return oldest
}

// tell gives the time that was Unknown since sinceNS, in closed columns before col, to the state that a late answer of
// the kernel has told. Only the first of these columns can hold unknown time of another episode.
func (r *row) tell(st State, sinceNS, col, columnNS int64) {
	if r.firstCol < 0 {
		return
	}
	first := max(sinceNS/columnNS, r.firstCol, col-int64(len(r.chunks)-1)*chunkColumns)
	for k := first; k < col; k++ {
		c := &r.chunks[(k/chunkColumns)%int64(len(r.chunks))]
		if c.index != k/chunkColumns {
			continue
		}
		c.expand()
		cell := &c.cells.column[k%chunkColumns]
		u := cell[Unknown]
		if begin := k * columnNS; begin < sinceNS {
			u = min(u, uint16((begin+columnNS-sinceNS)*unitsPerColumn/columnNS))
		}
		cell[Unknown] -= u
		cell[st] += u
		c.cells.sum[Unknown] -= uint32(u)
		c.cells.sum[st] += uint32(u)
	}
}
