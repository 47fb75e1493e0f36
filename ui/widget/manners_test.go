package widget

import (
	"testing"
)

// TestNotesStandWhereTheirColumnIs: a note is written on the time axis, at the column of its moment. This column must
// be in the cell that contains the moment.
func TestNotesStandWhereTheirColumnIs(t *testing.T) {
	for _, cells := range []int{1, 7, 30, 59, 60} {
		v := Timeline{FromNS: 1000, ToNS: 1000 + int64(cells)*100, Cells: cells}
		for i := range cells {
			x, ok := v.columnAt(v.FromNS+int64(i)*100+50, 60)
			if !ok || CellAt(x, cells, 60) != i {
				t.Errorf("cell %d of %d: column %d, %v", i, cells, x, ok)
			}
		}
		if _, ok := v.columnAt(v.ToNS+1, 60); ok {
			t.Error("the future has a column")
		}
	}
}
