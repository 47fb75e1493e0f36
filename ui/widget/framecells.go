package widget

import (
	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// frameCells replace the usual cells of the timeline in two cases: a frame is selected in the flamegraph, or only one
// route is shown. They have only the time in which this frame ran, or this route was served. This time is divided by
// state.
type frameCells struct {
	label string
	Cells map[scene.RowKey][]timeline.Cell
}

// LoadFrameCells sets the timeline's cells that show when a frame ran, or which threads worked for an endpoint. It
// fills only the rows that are drawn. It adds up the wall time of the weights for whose key the function under returns
// true. It leaves out weights that are zero in the given metric.
func (v *Timeline) LoadFrameCells(r *store.Reading, label string, metric flamegraph.Metric, under func(flamegraph.Key) bool) {
	l := &frameCells{label: label, Cells: make(map[scene.RowKey][]timeline.Cell, len(v.Visible))}
	of := make(map[sampler.ThreadID][][]timeline.Cell)
	for i := range v.Visible {
		w := &v.Visible[i]
		cells := make([]timeline.Cell, len(w.Cells))
		l.Cells[w.Key] = cells
		for _, k := range w.Members {
			of[v.Threads[k].ID] = append(of[v.Threads[k].ID], cells)
		}
	}
	v.FrameCells = l
	each := (v.ToNS - v.FromNS) / int64(max(v.Cells, 1))
	if each <= 0 {
		return
	}
	r.Rolling.Spread(v.FromNS, v.ToNS, func(k flamegraph.Key) bool { return of[k.Thread] != nil && under(k) },
		func(fromNS, toNS int64, k flamegraph.Key, w flamegraph.Weights) {
			if w.WallNS <= 0 || w.Of(metric) == 0 || toNS <= fromNS {
				return
			}
			state := k.State
			// The store has only the time in each slot, and does not know when in the slot it was. So the time is
			// spread evenly over its slot.
			for i := max(0, (fromNS-v.FromNS)/each); i < int64(v.Cells); i++ {
				cellNS := v.FromNS + i*each
				if cellNS >= toNS {
					break
				}
				part := style.Share(min(toNS, cellNS+each)-max(fromNS, cellNS), toNS-fromNS)
				for _, cells := range of[k.Thread] {
					cells[i].NS[state] += int64(part * float64(w.WallNS))
				}
			}
		})
	for i := range v.Visible {
		w := &v.Visible[i]
		for i := range w.Cells {
			finishFrameCell(&l.Cells[w.Key][i], &w.Cells[i])
		}
	}
}

// finishFrameCell computes which state has most of a cell's time. It also computes in which share of the row's time the
// frame ran.
func finishFrameCell(c, whole *timeline.Cell) {
	c.SpanNS = whole.SpanNS
	for s, ns := range c.NS {
		if ns > c.NS[c.Dominant] {
			c.Dominant = gvl.State(s)
		}
	}
	c.Share = min(style.Share(c.Listed(), whole.Listed()), 1)
}

// cell returns a cell of a row. If the row appeared only after LoadFrameCells was called, the cell is empty.
func (l *frameCells) cell(k scene.RowKey, i int) *timeline.Cell {
	if cells := l.Cells[k]; i < len(cells) {
		return &cells[i]
	}
	return &timeline.Cell{}
}

// draw writes "where FRAME runs" at the left end of the time axis, instead of the times there. It returns how many
// columns this takes.
func (l *frameCells) draw(axis canvas.Area, t *style.Theme) int {
	const before, after = "where ", " runs "
	room := axis.W*2/3 - len(before) - len(after)
	if room < 4 {
		return 0
	}
	return axis.Put(0, 0, before+flamegraph.LabelFit(canvas.Clean(l.label), room)+after, canvas.Style{FG: t.Accent, Attr: canvas.Bold})
}
