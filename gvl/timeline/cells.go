package timeline

import (
	"math/bits"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// UnitsPerColumn is the number of units in which the time of a stored column is counted. In a column of 100 ms, a
	// unit is 2 µs.
	UnitsPerColumn = 50_000
	// chunkColumns is the number of consecutive columns that are stored together in a chunk. A chunk with only one
	// state takes only a few machine words, so idle threads need almost no memory.
	chunkColumns = 64
)

// packed is one stored column of a thread: its time by state, in units.
type packed [gvl.NumStates]uint16

type chunk struct {
	index int64
	// mixed is false if the chunk has only one state: the field state. In this case full has one bit for each column.
	// The bit is set if the thread was in this state for the whole column.
	full  uint64
	state gvl.State
	mixed bool
	cells *cells
}

// cells has the columns of a chunk in which the thread had several states, and the sums of these columns.
type cells struct {
	column [chunkColumns]packed
	sum    [gvl.NumStates]uint32
}

// openColumn is a thread's time by state, in ns, in a column to which time is still added.
type openColumn struct {
	col int64
	ns  [gvl.NumStates]int64
}

// row has one thread's stored columns and its open columns.
type row struct {
	id   sampler.ThreadID
	lane *ractorLane
	// listed is set if the thread is in the last sample. active is set if it has an open column.
	listed, active bool
	// settled and now are the open columns. A thread's time becomes final only some time after its samples. settled is
	// the column up to which time is final. The field now is the column of the last sample, whose time can still
	// change. Columns between the two are stored twice: first with what is known now, and again when they are final.
	settled, now openColumn

	chunks            []chunk
	firstCol, lastCol int64
}

// newRow returns a row that stores the given number of columns. If there are too many threads, columns is 0, and the
// row stores nothing.
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

// store stores a column of the row. If the column was stored before, its content is replaced.
func (r *row) store(o *openColumn, columnNS int64) {
	var sum int64
	dominant := gvl.Unknown
	for s, v := range o.ns {
		sum += v
		if v > o.ns[dominant] {
			dominant = gvl.State(s)
		}
	}
	if sum == 0 || len(r.chunks) == 0 {
		return
	}
	index, i := o.col/chunkColumns, o.col%chunkColumns
	c := &r.chunks[index%int64(len(r.chunks))]
	switch {
	case c.index > index:
		return
	case c.index < index:
		c.index, c.full, c.mixed = index, 0, false
	}
	if o.ns[dominant] == columnNS && (!c.mixed && (c.full&^(1<<i) == 0 || c.state == dominant)) {
		c.full |= 1 << i
		c.state = dominant
	} else {
		c.expand()
		cell := &c.cells.column[i]
		for s, u := range cell {
			c.cells.sum[s] -= uint32(u)
		}
		*cell = pack(&o.ns, sum, dominant, columnNS)
		for s, u := range cell {
			c.cells.sum[s] += uint32(u)
		}
	}
	if r.firstCol < 0 {
		r.firstCol = o.col
	}
	r.lastCol = max(r.lastCol, o.col)
}

// pack rounds the times in a column to units. Each state that occurred keeps at least one unit, so that short waits are
// not lost. The dominant state gets all remaining units, so that the sum stays right.
func pack(ns *[gvl.NumStates]int64, sum int64, dominant gvl.State, columnNS int64) packed {
	var p packed
	total := (sum*UnitsPerColumn + columnNS/2) / columnNS
	for s, v := range ns {
		if v == 0 || gvl.State(s) == dominant {
			continue
		}
		u := max((v*UnitsPerColumn+columnNS/2)/columnNS, 1)
		p[s] = uint16(u)
		total -= u
	}
	p[dominant] = uint16(max(total, 1))
	return p
}

// expand turns a chunk that stores only one state into a mixed one, in which each column has times for all states.
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
			c.cells.column[i][c.state] = UnitsPerColumn
		}
	}
	c.cells.sum[c.state] = uint32(bits.OnesCount64(c.full)) * UnitsPerColumn
	c.mixed = true
}

// add adds a part of the time in a stored column to ns. The part is num/den.
func (r *row) add(ns *[gvl.NumStates]int64, col, num, den, columnNS int64) {
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
			ns[s] += int64(u) * columnNS / UnitsPerColumn
		default:
			ns[s] += scale(int64(u)*columnNS/UnitsPerColumn, num, den)
		}
	}
}

// addWhole adds the stored columns from first to end-1 to ns.
func (r *row) addWhole(ns *[gvl.NumStates]int64, first, end, columnNS int64) {
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
				ns[s] += int64(u) * columnNS / UnitsPerColumn
			}
		case n == 1:
			for s, u := range &c.cells.column[from] {
				ns[s] += int64(u) * columnNS / UnitsPerColumn
			}
		default:
			var sum [gvl.NumStates]uint32
			for i := range n {
				for s, u := range &c.cells.column[from+i] {
					sum[s] += uint32(u)
				}
			}
			for s, u := range sum {
				ns[s] += int64(u) * columnNS / UnitsPerColumn
			}
		}
	}
}

// spentIn returns how long the thread was in a state during a stored column, in ns.
func (r *row) spentIn(st gvl.State, col, columnNS int64) int64 {
	var ns [gvl.NumStates]int64
	r.addWhole(&ns, col, col+1, columnNS)
	return ns[st]
}

// steadyFrom returns the first column from which on, up to col, the thread was only in the state st. It searches
// backwards from col, but not before the column oldest. If the thread was also in another state in col itself, the
// result is col+1.
func (r *row) steadyFrom(st gvl.State, col, oldest, columnNS int64) int64 {
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
