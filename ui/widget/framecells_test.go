package widget

import (
	"testing"

	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestNoRowIsHighlightedThatCameLater: a row of the timeline appears after the cells of the selected frame were loaded.
// There are no such cells for this row, so it must be drawn without a highlight.
func TestNoRowIsHighlightedThatCameLater(t *testing.T) {
	l := &frameCells{Cells: map[scene.RowKey][]timeline.Cell{{Thread: 1}: make([]timeline.Cell, 2)}}
	for _, c := range []*timeline.Cell{l.cell(scene.RowKey{Thread: 1}, 1), l.cell(scene.RowKey{Thread: 1}, 2), l.cell(scene.RowKey{Thread: 2}, 0)} {
		if c == nil || c.Listed() != 0 {
			t.Errorf("%+v", c)
		}
	}
}
