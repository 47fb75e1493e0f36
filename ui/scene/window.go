package scene

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/ui/style"
)

// FlameRange is the stretch of time that the flamegraph's weights are of.
type FlameRange struct {
	AtNS, WindowNS int64
	Frozen         bool
}

// WeightsStale reports whether the flamegraph needs new weights: at another time or stretch of time, and while live only
// every now and then, since what it shows covers many seconds, though not at first.
func (sc *Scene) WeightsStale() bool {
	const leastNS, secondNS, parts = int64(500e6), int64(1e9), 120
	of := sc.WeightsOf
	if of.WindowNS != sc.WindowNS || of.Frozen != sc.Frozen || sc.AtNS < of.AtNS || sc.Frozen && sc.AtNS != of.AtNS {
		return true
	}
	return sc.AtNS-of.AtNS >= min(max(leastNS, min(secondNS, sc.WindowNS/30), sc.WindowNS/parts), (sc.AtNS-sc.OldestNS)/2)
}

// Axis returns how many cells the time axis has and the stretch of time it covers. A cell is a whole number of kept
// columns, so that the picture moves by whole cells and does not shimmer; there are as many as come nearest to the
// window and fit the terminal's columns.
func Axis(windowNS int64, cols int, columnNS int64) (cells int, spanNS int64) {
	cols = max(cols, 1)
	each := max((windowNS+int64(cols)*columnNS-1)/(int64(cols)*columnNS), 1) * columnNS
	cells = max(1, min(int((windowNS+each/2)/each), cols))
	return cells, each * int64(cells)
}

const (
	// shiftNS is how long the time axis of a live picture stands at least before it moves on: a move repaints nearly every cell of
	// the timeline, which makes most of the bytes to the terminal, and unrest.
	shiftNS = int64(500e6)
	// shiftShare: a move is at most one in so many of the cells.
	shiftShare = 20
)

// TimeWindow returns the edges of the time axis, which ends with the moment that is shown. That of a live picture with short cells
// moves by several of them at a time and has only whole ones, so that it stands between two moves.
func (sc *Scene) TimeWindow(tl *gvl.Timeline, spanNS int64, cells int) (fromNS, toNS int64) {
	fromNS, toNS = tl.Window(sc.AtNS, spanNS, cells)
	if sc.Frozen || sc.Source.Done {
		return fromNS, toNS
	}
	each := (toNS - fromNS) / int64(cells)
	step := each * min((shiftNS+each-1)/each, int64(cells/shiftShare))
	if step <= each { // a cell stands long enough
		return fromNS, toNS
	}
	end := sc.AtNS / step * step
	if end-sc.OldestNS < step { // there would be nothing in it
		return fromNS, toNS
	}
	return end - (toNS - fromNS), end
}

// NowWord is the word for the end of the time shown.
func (sc *Scene) NowWord() string {
	switch {
	case sc.Frozen:
		return "then"
	case sc.Source.Ended:
		return "end"
	}
	return "now"
}

// When says which time the flamegraph covers.
func (sc *Scene) When() string {
	span := style.AxisTime(sc.WindowNS)
	if sc.Frozen {
		return span + " until " + sc.Process.WallTime(sc.AtNS).Format("15:04:05")
	}
	return "last " + span
}

// StackWord says of when a stack is.
func (sc *Scene) StackWord() string {
	if w := sc.NowWord(); w != "end" {
		return w
	}
	return "at the end"
}
