package ui

import (
	"fmt"
	"time"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// closeColumns are the lengths of a column of a close picture, the longest first; those shorter than fineColumnNS where every change of
// the GVL is known.
var closeColumns = []time.Duration{100 * time.Millisecond, 50 * time.Millisecond, 20 * time.Millisecond, 10 * time.Millisecond, 5 * time.Millisecond, 2 * time.Millisecond, time.Millisecond, 500 * time.Microsecond, 200 * time.Microsecond,
	100 * time.Microsecond, 50 * time.Microsecond, 20 * time.Microsecond, 10 * time.Microsecond}

const (
	// waitParts: a wait that is shown takes one of so many parts of the axis.
	waitParts = 3
)

// closeView is a part of the time shown in columns so short that single changes of the GVL are seen. The zero value is none.
type closeView struct {
	// columnNS is the length of a column, fromNS the left edge of the first.
	columnNS, fromNS int64
}

func (c closeView) on() bool { return c.columnNS != 0 }

// around is the view with as many columns of a length, in whose middle (at the share place of it) a moment is.
func closeAround(columnNS, atNS int64, columns int, place float64) closeView {
	from := atNS - int64(place*float64(columnNS*int64(columns)))
	return closeView{columnNS: columnNS, fromNS: from / columnNS * columnNS}
}

// zoomClose zooms within what is known exactly, in (-1) or out (+1); false: the zoom of the whole screen is to do it.
func (p *timelinePage) zoomClose(h Host, d int) bool {
	cols := h.Scene().regions.cellsW
	at := p.cursorNS
	if at < p.span[0] || at > p.span[1] {
		at = (p.span[0] + p.span[1]) / 2
	}
	place := style.Share(at-p.span[0], p.span[1]-p.span[0])
	each := p.cellNS(h.Scene())
	switch {
	case !p.close.on() && d > 0, h.Scene().lastNS == 0:
		return false
	case !p.close.on():
		if h.Scene().windowNS > int64(windows[0]) {
			return false
		}
		if !h.Scene().exactSpans.Any(at-each, at+each) {
			h.Message().tell(fmt.Sprintf("%s a column is as close as samples tell: where exact mode was on, the zoom goes on to 10 µs", units.Duration(each)))
			return true
		}
	}
	level := -1
	for i, c := range closeColumns {
		if d < 0 && int64(c) < each && (p.close.on() || int64(c) < store.FineColumnNS) {
			level = i
			break
		}
		if d > 0 && int64(c) > each {
			level = i // the shortest of those that are longer
		}
	}
	switch {
	case level >= 0:
		h.Scene().freeze()
		p.close = closeAround(int64(closeColumns[level]), at, cols, place)
	case d < 0:
		h.Message().tell(units.Duration(each) + " a column is as close as it goes")
	default:
		p.close = closeView{}
	}
	return true
}

// ShowWait freezes the picture with a wait for the GVL in its middle, the cursor at its beginning.
func (p *timelinePage) ShowWait(h Host, e *store.WaitEvent) {
	h.Scene().freeze()
	p.cursorNS, p.close = max(e.FromNS(), h.Scene().oldestNS), closeView{}
	p.timeline.openGroupOf(e.Thread)
	cols := max(h.Scene().regions.cellsW, 1)
	for _, c := range closeColumns { // the shortest columns in which it has room
		if span := int64(c) * int64(cols); span >= waitParts*e.LenNS && span <= store.MaxFineNS && (e.Exact || int64(c) >= store.FineColumnNS) {
			p.close = closeAround(int64(c), e.EndNS-e.LenNS/2, cols, 0.5)
		}
	}
}

// openGroupOf opens the group that a thread is in.
func (v *timelineView) openGroupOf(id sampler.ThreadID) {
	for i := range v.rows {
		for _, m := range v.rows[i].members {
			if w := &v.rows[i]; w.isGroup && v.threads[m].id == id {
				v.opened[w.key.group] = true
			}
		}
	}
}

// pan moves the close picture by columns.
func (p *timelinePage) pan(h Host, columns int64) {
	c := &p.close
	c.fromNS = max(min(c.fromNS+columns*c.columnNS, h.Scene().lastNS-c.columnNS), h.Scene().oldestNS)
	c.fromNS = c.fromNS / c.columnNS * c.columnNS
	h.Refresh()
}

// within leaves the close picture when the time shown by the whole screen has moved away from it.
func (p *timelinePage) within(sc *scene) {
	end := p.close.fromNS + p.close.columnNS*int64(sc.regions.cellsW)
	if p.close.on() && (!sc.frozen || end < sc.atNS-sc.windowNS || p.close.fromNS > sc.atNS) {
		p.close = closeView{}
	}
}

// loadClose puts into the rows what they were at in the close picture: their time, and what they did at the cursor, or else at the end.
func (p *timelinePage) loadClose() {
	v := p.timeline
	for i := range v.lanes {
		v.lanes[i].own = true
	}
	for i := range v.visible {
		w := &v.visible[i]
		w.totals = [gvl.NumStates]int64{}
		for k := range w.cells {
			for s, ns := range w.cells[k].NS {
				w.totals[s] += ns
			}
		}
		w.now, w.holds, w.then, w.state = []string{"–"}, false, true, gvl.Unknown
		if c := p.cellAtCursor(w); c != nil && c.Listed() > 0 {
			w.now, w.state, w.holds = cellForms(c), c.Dominant, c.Dominant.Held() && !w.isGroup
		}
	}
}

// cellAtCursor is a row's cell under the cursor, or else the last one.
func (p *timelinePage) cellAtCursor(w *row) *gvl.Cell {
	i := len(w.cells) - 1
	if p.cursorNS >= p.span[0] && p.cursorNS < p.span[1] && p.span[1] > p.span[0] {
		i = int((p.cursorNS - p.span[0]) * int64(len(w.cells)) / (p.span[1] - p.span[0]))
	}
	if i < 0 || i >= len(w.cells) {
		return nil
	}
	return &w.cells[i]
}

// cellForms say which states a cell has, the fullest form first: "waiting 60 % · running 40 %".
func cellForms(c *gvl.Cell) []string {
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
		full += fmt.Sprintf("%s%s %s", between, gvl.State(second), units.Percent(style.Share(c.NS[second], c.Listed())))
	}
	return []string{full, s}
}
