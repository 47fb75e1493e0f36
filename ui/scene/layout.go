package scene

const (
	// MinWidth and minHeight are the smallest terminal in which the screen still says something.
	MinWidth, MinHeight = 60, 15
	// WideWidth is from where on groups are opened by themselves, four shares and long descriptions fit.
	WideWidth = 100
	// MinTimelineColumns and minFlameRows are kept on a terminal of 80x24.
	MinTimelineColumns = 36
	MinFlameRows       = 6
	// MaxLanes bounds the GVL lanes drawn: a lane a ractor.
	MaxLanes = 8
	// MaxRows bounds the rows of the timeline's list: threads and groups.
	MaxRows = 1 << 16
)

// Regions is where everything is: rows from the top.
type Regions struct {
	w, h int
	// head, findings, gauges and axis are rows; findingRows is 2 to 4.
	Head, Findings, FindingRows, Gauges, Axis int
	// Rows is the first row of the timeline, rowCount how many there are; lanes and laneCount the GVL lanes under it.
	Rows, RowCount, Lanes, LaneCount int
	// RowBudget is how many rows the timeline could have.
	RowBudget int
	// Legend is the row of the legend, under the lanes; 0: there is none.
	Legend int
	// Rule is the line above the flamegraph; flame and flameRows the flamegraph.
	Rule, Flame, FlameRows int
	// Detail and footer are the last rows; they are the same row on a small terminal.
	Detail, Footer int
	// nameW, nowW, cellsX, cellsW, sharesW are columns of the timeline.
	NameW, NowW, CellsX, CellsW, SharesW int
}

// Demand is what there is to show.
type Demand struct {
	// Rows is the number of timeline rows; lanes the number of GVL lanes; flameRows the depth of the flamegraph, 0: not
	// known yet.
	Rows, Lanes, FlameRows int
	// Longest is the columns that the longest name needs, its indentation included.
	Longest int
	// spaced: blank rows between the parts, where the terminal is high enough.
	Spaced bool
}

// findingRows is the height of the findings. It does not follow the text's length: the screen must not jump when a finding
// comes or goes.
func findingRows(w, h int) int {
	switch {
	case h >= 46:
		return 4
	case h >= 36, h >= 24 && w < WideWidth:
		return 3
	}
	return 2
}

// spacedHeight is the height from which on there is room for blank rows.
const spacedHeight = 30

// legendHeight is the height from which on the legend has a row of its own. Below it stands where nothing is selected.
const legendHeight = 30

// NewRegions shares the terminal out.
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
	left := h - r.Rows - gap - 1 - bottom // without the rule
	if r.LaneCount > 1 && left < 24 {
		r.LaneCount = 1
	}
	left -= r.LaneCount
	legend := 0
	if h >= legendHeight {
		legend = 1
	}
	left -= legend
	// The flamegraph gets two fifths, or less if it is not that deep; and what the timeline does not need.
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
	r.CellsX = r.NameW + 1 + r.NowW + 1
	r.CellsW = w - r.CellsX
	if r.SharesW > 0 {
		r.CellsW -= r.SharesW + 1
	}
	return r
}

// ShareW is the width of a column of shares, with the space before it.
const ShareW = 6
