package timeline

import (
	"slices"

	"github.com/ddtop/ddtop/sampler"
)

// RowCells has the cells of one row of a picture. Most cells show the past and do not change, so the next picture
// reuses them. The zero value is ready for use.
type RowCells struct {
	of           *Timeline
	ids          []sampler.ThreadID
	cells        []Cell
	fromNS, each int64
	// finalNS is a time. Cells before this time cannot change.
	finalNS int64
	startNS int64 // the Timeline's startNS at the last call
}

// UpdateRows is like AppendRows, but computes fewer cells. c has the cells of the last call, and UpdateRows reuses
// those that cannot have changed. The result is valid until the next call.
func (t *Timeline) UpdateRows(c *RowCells, ids []sampler.ThreadID, fromNS, toNS int64, cols int) []Cell {
	t.sync()
	cols = min(cols, maxCells)
	each := (toNS - fromNS) / int64(max(cols, 1))
	kept := 0 // the number of reused cells at the beginning
	if each > 0 && each*int64(cols) == toNS-fromNS && each == c.each && t == c.of && t.startNS == c.startNS && slices.Equal(ids, c.ids) {
		if moved := fromNS - c.fromNS; moved >= 0 && moved%each == 0 && moved/each < int64(len(c.cells)) && fromNS/t.columnNS > t.oldest() {
			last := copy(c.cells, c.cells[moved/each:])
			kept = int(min(max((c.finalNS-fromNS)/each, 0), int64(last), int64(cols)))
		}
	}
	if kept == 0 {
		c.ids = append(c.ids[:0], ids...)
	}
	c.of, c.fromNS, c.each, c.startNS = t, fromNS, each, t.startNS
	c.cells = t.appendCells(c.cells[:kept], ids, fromNS, toNS, cols, kept)
	c.finalNS = t.finalNS(ids)
	return c.cells
}

// finalNS returns the time up to which the stored states of the given threads are final.
func (t *Timeline) finalNS(ids []sampler.ThreadID) int64 {
	col := t.col
	for _, id := range ids {
		switch r := t.rows[id]; {
		case r == nil:
			return 0
		case r.active:
			col = min(col, r.settled.col)
		}
	}
	return col * t.columnNS
}
