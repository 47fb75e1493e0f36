package scene

import (
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// Scene is all that a picture is drawn from: the data of the last refresh, the time span on the screen, and the
// appearance of the screen. When views load data, draw, or describe a selection, they only read the Scene. There is one
// exception: while views draw, they set Zones, the areas that react to a click. At key presses and clicks, the Model
// changes the Scene.
type Scene struct {
	Span
	style.Colors
	Dict   *sampler.Dictionary
	Opt    Options
	Now    func() time.Time
	Offers Offers
	Page   PageID
	// ThreadFrom is the page from which the user opened the page of one thread. Focus is the part of the live view that
	// receives key presses.
	ThreadFrom PageID
	Focus      Focus
	// Opened is the request from which the user opened the page of its thread.
	Opened Opened
	// Presenting is true during a presentation, in which names are hidden (HidesNames).
	Presenting    bool
	Saving        bool // the screen is drawn for a file
	Width, Height int
	Regions       Regions

	Process sampler.Process
	// Below is how many descendants of the shown process ddtop could show, too.
	Below  int
	Source store.SourceState
	Exact  sampler.ExactStatus // zero if exact mode is not possible
	// Switches is the state of following thread switches. It is zero if this is impossible.
	Switches sampler.SwitchStatus
	// States has the state of every thread at the time HeldNS. Moment is the sample of this time. Usually HeldNS equals
	// AtNS, the moment on the screen. If the history has no sample for AtNS, the screen keeps the earlier states, and
	// HeldNS is their time.
	States []gvl.ThreadState
	Moment *sampler.Sample
	HeldNS int64
	// FromNS and ToNS are the times at the two ends of the time axis. Cells is how many columns the axis has.
	FromNS, ToNS int64
	Cells        int
	ExactSpans   store.ExactSpans // spans in which every change of the GVL is known
	Figures      Figures
	Findings     Findings
	Notes        Notes
	// Threads are the threads in the time on the screen. Weights says on what the threads spent their time. It covers
	// the time span WeightsOf.
	Threads   Threads
	Weights   flamegraph.Snapshot
	WeightsOf FlameRange
	Served    Served
	*Selection

	Drag  *Drag  // nil unless the mouse selects a time span
	Zones []Zone // areas that react to a click
}

// BodyRows is the height of a page.
func (sc *Scene) BodyRows() int { return sc.Regions.Detail - sc.Regions.Axis - 1 }

// FlameRange is the time span that the flamegraph's weights cover.
type FlameRange struct {
	AtNS, WindowNS int64
	Frozen         bool
}

// WeightsStale reports whether the flamegraph needs new weights. It does if the moment on the screen or the length of
// the time span has changed. A live flamegraph covers many seconds, so it does not need new weights for each picture.
// It gets new weights only from time to time, but more often at first.
func (sc *Scene) WeightsStale() bool {
	const leastNS, secondNS, parts = int64(500e6), int64(1e9), 120
	of := sc.WeightsOf
	if of.WindowNS != sc.WindowNS || of.Frozen != sc.Frozen || sc.AtNS < of.AtNS || sc.Frozen && sc.AtNS != of.AtNS {
		return true
	}
	return sc.AtNS-of.AtNS >= min(max(leastNS, min(secondNS, sc.WindowNS/30), sc.WindowNS/parts), (sc.AtNS-sc.OldestNS)/2)
}

// Axis returns how many cells the time axis has, and the time span that it covers. Each cell covers a whole number of
// the timeline's columns. Because of this, a live picture moves by whole cells and does not flicker. Axis chooses a
// number of cells that fits the terminal, and for which the time span is close to the window.
func Axis(windowNS int64, cols int, columnNS int64) (cells int, spanNS int64) {
	cols = max(cols, 1)
	each := max((windowNS+int64(cols)*columnNS-1)/(int64(cols)*columnNS), 1) * columnNS
	cells = max(1, min(int((windowNS+each/2)/each), cols))
	return cells, each * int64(cells)
}

const (
	// shiftNS is the shortest time between two moves of a live time axis, in ns. A move changes nearly every cell of
	// the timeline. So moves cause most of the bytes for the terminal, and frequent moves are unpleasant to watch.
	shiftNS = int64(500e6)
	// shiftShare limits how far the time axis moves at once: by at most cells/shiftShare cells.
	shiftShare = 20
)

// TimeWindow returns the beginning and the end of the time axis. The end is the moment on the screen. In a live picture
// with short cells, the axis would move all the time. So it moves by several cells at once, and rests in between.
func (sc *Scene) TimeWindow(tl *timeline.Timeline, spanNS int64, cells int) (fromNS, toNS int64) {
	fromNS, toNS = tl.Window(sc.AtNS, spanNS, cells)
	if sc.Frozen || sc.Source.Done {
		return fromNS, toNS
	}
	each := (toNS - fromNS) / int64(cells)
	step := each * min((shiftNS+each-1)/each, int64(cells/shiftShare))
	if step <= each { // at this speed, the axis moves rarely anyway
		return fromNS, toNS
	}
	end := sc.AtNS / step * step
	if end-sc.OldestNS < step { // the axis would show nothing
		return fromNS, toNS
	}
	return end - (toNS - fromNS), end
}

// NowWord returns a word for the moment at which the time on the screen ends: "now", "then" or "end".
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

// StackWord returns words for the time at which a stack was read, such as "now" or "at the end".
func (sc *Scene) StackWord() string {
	if w := sc.NowWord(); w != "end" {
		return w
	}
	return "at the end"
}

const (
	// MinWidth and MinHeight are the size of the smallest terminal on which the screen is useful.
	MinWidth, MinHeight = 60, 15
	// WideWidth is the least width at which groups open automatically. At this width there is room for four shares and
	// for long descriptions.
	WideWidth = 100
	// MinTimelineColumns is the least width of the timeline's cells on a terminal of 80x24. MinFlameRows is the least
	// height of the flamegraph on such a terminal.
	MinTimelineColumns = 36
	MinFlameRows       = 6
	// MaxLanes limits how many GVL lanes are drawn, one for each ractor. A GVL lane is a row that shows over time how
	// the ractor's GVL was used.
	MaxLanes = 8
	// MaxRows limits how many rows the timeline has, for threads and for groups.
	MaxRows = 1 << 16
)

// Regions says in which rows and columns of the screen each part is. Rows are counted from the top.
type Regions struct {
	w, h int
	// Head, Findings, Gauges and Axis are the first rows of these parts of the screen. FindingRows is how many rows the
	// findings get, 2 to 4.
	Head, Findings, FindingRows, Gauges, Axis int
	// Rows is the first row of the timeline, and RowCount how many rows it has. Lanes and LaneCount are the same for
	// the GVL lanes, which show how each ractor's GVL was used.
	Rows, RowCount, Lanes, LaneCount int
	// RowBudget is the largest number of rows that the timeline can get.
	RowBudget int
	// Legend is the row of the legend, below the lanes. It is zero if the screen has no legend.
	Legend int
	// Rule is the row of the line above the flamegraph. Flame is the first row of the flamegraph, and FlameRows how
	// many rows it has.
	Rule, Flame, FlameRows int
	// Detail and Footer are the last two rows of the screen. On a small terminal both are the same row.
	Detail, Footer int
	// NameW, NowW, CellsW and SharesW are the widths of the timeline's columns: names, states, cells and shares. The
	// cells begin at column CellsX.
	NameW, NowW, CellsX, CellsW, SharesW int
}

// Demand says how much room the parts of the screen need now.
type Demand struct {
	// Rows is how many rows the timeline needs, and Lanes how many GVL lanes there are. FlameRows is the depth of the
	// flamegraph. It is zero until it is known.
	Rows, Lanes, FlameRows int
	// Longest is the width of the longest name in the timeline, with its indentation, in columns.
	Longest int
	// Spaced is true if the parts of the screen should have blank rows between them. These rows are drawn only if the
	// terminal is high enough.
	Spaced bool
	// Timeline is true if the page shows only the timeline. In this case the cells of the timeline get two thirds of
	// the width.
	Timeline bool
}

// findingRows returns how many rows of the screen are for findings. The number depends only on the size of the screen,
// and not on the findings. Otherwise the other parts would jump when a finding comes or goes.
func findingRows(w, h int) int {
	switch {
	case h >= 46:
		return 4
	case h >= 36, h >= 24 && w < WideWidth:
		return 3
	}
	return 2
}

// spacedHeight is the least height of a screen on which blank rows are drawn between the parts.
const spacedHeight = 30

// legendHeight is the least height of a screen on which the legend has a row for itself. On a lower screen, the legend
// shares a row with the description of a selection, which is drawn instead of the legend.
const legendHeight = 30

// NewRegions divides a screen of w columns and h rows among its parts.
func NewRegions(w, h int, d Demand) Regions {
	r := Regions{w: w, h: h, FindingRows: findingRows(w, h), LaneCount: min(d.Lanes, MaxLanes)}
	gap := 0
	if d.Spaced && h >= spacedHeight {
		gap = 1
	}
	r.Findings = 1 + gap
	r.Gauges = r.Findings + r.FindingRows + gap
	r.Axis = r.Gauges + 1 + gap
	r.Rows = r.Axis + 1
	bottom := 1
	if h >= 24 {
		bottom = 2
	}
	left := h - r.Rows - gap - 1 - bottom // the number of rows that are left, without the row of the rule
	if r.LaneCount > 1 && left < 24 {
		r.LaneCount = 1
	}
	left -= r.LaneCount
	legend := 0
	if h >= legendHeight {
		legend = 1
	}
	left -= legend
	// The flamegraph gets two fifths of the rows that are left, or fewer if it needs fewer. It also gets the rows that
	// the timeline does not need.
	least := MinFlameRows
	if h < 24 {
		least = 3
	}
	flame := left * 2 / 5
	if d.FlameRows > 0 {
		flame = min(flame, d.FlameRows)
	}
	r.RowBudget = left - max(flame, least)
	r.RowCount = min(max(d.Rows, 1), r.RowBudget)
	r.FlameRows = left - r.RowCount
	r.Lanes = r.Rows + r.RowCount
	if legend > 0 {
		r.Legend = r.Lanes + r.LaneCount
	}
	r.Rule = r.Lanes + r.LaneCount + legend + gap
	r.Flame = r.Rule + 1
	r.Footer = h - 1
	r.Detail = h - bottom

	switch {
	case w >= 160:
		r.NameW, r.NowW, r.SharesW = min(max(d.Longest, 18), 34), 44, 6*ShareW-1
	case w >= WideWidth:
		r.NameW, r.NowW, r.SharesW = min(max(d.Longest, 14), 22), 30, 4*ShareW-1
	case w >= 80:
		r.NameW, r.NowW, r.SharesW = min(max(d.Longest, 12), 15), 16, 2*ShareW-1
	default:
		r.NameW, r.NowW, r.SharesW = 13, 9, 0
	}
	if d.Timeline && w >= 80 {
		beside := w / 3
		r.NameW = min(r.NameW, beside/2+2)
		r.NowW = beside - r.NameW - 2
		switch {
		case w >= 160:
			r.SharesW = 3*ShareW - 1
		case w >= WideWidth:
			r.SharesW = ShareW - 1
		default:
			r.SharesW = -1
		}
		r.NowW -= r.SharesW + 1
		r.SharesW = max(r.SharesW, 0)
	}
	r.CellsX = r.NameW + 1 + r.NowW + 1
	r.CellsW = w - r.CellsX
	if r.SharesW > 0 {
		r.CellsW -= r.SharesW + 1
	}
	return r
}

// ShareW is the width of a column of shares, including the space before the column.
const ShareW = 6
