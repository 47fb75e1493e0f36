package timeline

import (
	"fmt"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// closeColumns are the lengths of time that a column of the close view (closeView) can have, the longest first. Lengths
// below store.FineColumnNS are used only for times in which ddtop knows every change of the GVL.
var closeColumns = []time.Duration{100 * time.Millisecond, 50 * time.Millisecond, 20 * time.Millisecond, 10 * time.Millisecond, 5 * time.Millisecond, 2 * time.Millisecond, time.Millisecond, 500 * time.Microsecond, 200 * time.Microsecond,
	100 * time.Microsecond, 50 * time.Microsecond, 20 * time.Microsecond, 10 * time.Microsecond}

const (
	// waitParts decides how far a zoom to a wait goes: the wait gets at most 1/waitParts of the time axis.
	waitParts = 3
)

// closeView is a zoomed view of a short time. Its columns are so short that single changes of the GVL are visible. The
// zero value means that the timeline is not zoomed in this way.
type closeView struct {
	// ColumnNS is the length of a column in ns. fromNS is the time at the left edge of the first column.
	ColumnNS, fromNS int64
}

func (c closeView) On() bool { return c.ColumnNS != 0 }

// closeAround returns a close view that contains the time atNS. Its columns have the length columnNS. place says where
// on the axis atNS is: 0 is the left end, 1 the right end.
func closeAround(columnNS, atNS int64, columns int, place float64) closeView {
	from := atNS - int64(place*float64(columnNS*int64(columns)))
	return closeView{ColumnNS: columnNS, fromNS: from / columnNS * columnNS}
}

// zoomClose zooms the close view in (d is -1) or out (+1). It uses the shortest columns only for a time in which every
// change of the GVL is known. It returns false if the zoom of the whole screen should change instead.
func (p *Page) zoomClose(h scene.Host, d int) bool {
	cols := h.Showing().Regions.CellsW
	at := p.CursorNS
	if at < p.Span[0] || at > p.Span[1] {
		at = (p.Span[0] + p.Span[1]) / 2
	}
	place := style.Share(at-p.Span[0], p.Span[1]-p.Span[0])
	each := p.CellNS(h.Showing())
	switch {
	case !p.Close.On() && d > 0, h.Showing().LastNS == 0:
		return false
	case !p.Close.On():
		if h.Showing().WindowNS > int64(scene.Windows[0]) {
			return false
		}
		if !h.Showing().ExactSpans.Any(at-each, at+each) {
			h.Message().Tell(fmt.Sprintf("%s a column is as close as samples tell: where exact mode was on, the zoom goes on to 10 µs", units.Duration(each)))
			return true
		}
	}
	level := -1
	for i, c := range closeColumns {
		if d < 0 && int64(c) < each && (p.Close.On() || int64(c) < store.FineColumnNS) {
			level = i
			break
		}
		if d > 0 && int64(c) > each {
			level = i // the last match is the shortest of the longer columns
		}
	}
	switch {
	case level >= 0:
		h.Showing().Freeze()
		p.Close = closeAround(int64(closeColumns[level]), at, cols, place)
	case d < 0:
		h.Message().Tell(units.Duration(each) + " a column is as close as it goes")
	default:
		p.Close = closeView{}
	}
	return true
}

// ShowWait freezes the screen and zooms in on a wait for the GVL, so that the wait is in the middle. It puts the cursor
// at the beginning of the wait.
func (p *Page) ShowWait(h scene.Host, e *store.WaitEvent) {
	h.Showing().Freeze()
	p.CursorNS, p.Close = max(e.FromNS(), h.Showing().OldestNS), closeView{}
	p.Timeline.OpenGroupOf(e.Thread)
	cols := max(h.Showing().Regions.CellsW, 1)
	for _, c := range closeColumns { // find the shortest columns with which the whole wait still fits: the last match
		if span := int64(c) * int64(cols); span >= waitParts*e.LenNS && span <= store.MaxFineNS && (e.Exact || int64(c) >= store.FineColumnNS) {
			p.Close = closeAround(int64(c), e.EndNS-e.LenNS/2, cols, 0.5)
		}
	}
}

// pan moves the close view by columns.
func (p *Page) pan(h scene.Host, columns int64) {
	c := &p.Close
	c.fromNS = max(min(c.fromNS+columns*c.ColumnNS, h.Showing().LastNS-c.ColumnNS), h.Showing().OldestNS)
	c.fromNS = c.fromNS / c.ColumnNS * c.ColumnNS
	h.Refresh()
}

// within ends the close view if it cannot be shown any longer: the screen is not frozen, or the close view's time is
// outside the time on the screen.
func (p *Page) within(sc *scene.Scene) {
	end := p.Close.fromNS + p.Close.ColumnNS*int64(sc.Regions.CellsW)
	if p.Close.On() && (!sc.Frozen || end < sc.AtNS-sc.WindowNS || p.Close.fromNS > sc.AtNS) {
		p.Close = closeView{}
	}
}

// loadClose changes all rows so that they show the time of the close view. Their totals cover only this time. Their
// states are the states at the cursor. Without a cursor, they are the states at the end of the view.
func (p *Page) loadClose() {
	v := p.Timeline
	for i := range v.Lanes {
		v.Lanes[i].Own = true
	}
	for i := range v.Visible {
		w := &v.Visible[i]
		w.Totals = [gvl.NumStates]int64{}
		for k := range w.Cells {
			for s, ns := range w.Cells[k].NS {
				w.Totals[s] += ns
			}
		}
		w.Now, w.Holds, w.AtMoment, w.State = []string{"–"}, false, true, gvl.Unknown
		if c := p.cellAtCursor(w); c != nil && c.Listed() > 0 {
			w.Now, w.State, w.Holds = cellForms(c), c.Dominant, c.Dominant.Held() && !w.IsGroup
		}
	}
}

// cellAtCursor returns the cell of a row in the column where the cursor is. If the cursor is not on the axis, it
// returns the last cell.
func (p *Page) cellAtCursor(w *scene.Row) *timeline.Cell {
	i := len(w.Cells) - 1
	if p.CursorNS >= p.Span[0] && p.CursorNS < p.Span[1] && p.Span[1] > p.Span[0] {
		i = int((p.CursorNS - p.Span[0]) * int64(len(w.Cells)) / (p.Span[1] - p.Span[0]))
	}
	if i < 0 || i >= len(w.Cells) {
		return nil
	}
	return &w.Cells[i]
}

// cellForms returns texts that describe the states in a cell of the timeline, such as "waiting 60 % · running 40 %".
// The longest text comes first.
func cellForms(c *timeline.Cell) []string {
	if c.Share >= 0.995 {
		return []string{c.Dominant.String()}
	}
	s := fmt.Sprintf("%s %s", c.Dominant, units.Percent(c.Share))
	full, second := s, -1
	for st, ns := range c.NS {
		if ns > 0 && gvl.State(st) != c.Dominant && (second < 0 || ns > c.NS[second]) {
			second = st
		}
	}
	if second >= 0 {
		full += fmt.Sprintf("%s%s %s", style.Between, gvl.State(second), units.Percent(style.Share(c.NS[second], c.Listed())))
	}
	return []string{full, s}
}
