package ui

const (
	// minWidth and minHeight are the smallest terminal in which the screen still says something.
	minWidth, minHeight = 60, 15
	// wideWidth is from where on groups are opened by themselves, four shares and long descriptions fit.
	wideWidth = 100
	// minTimelineColumns and minFlameRows are kept on a terminal of 80x24.
	minTimelineColumns = 36
	minFlameRows       = 6
	// maxLanes bounds the GVL lanes drawn: a lane a ractor.
	maxLanes = 8
	// maxRows bounds the rows of the timeline's list: threads and groups.
	maxRows = 1 << 16
)

// regions is where everything is: rows from the top.
type regions struct {
	w, h int
	// head, findings, gauges and axis are rows; findingRows is 2 to 4.
	head, findings, findingRows, gauges, axis int
	// rows is the first row of the timeline, rowCount how many there are; lanes and laneCount the GVL lanes under it.
	rows, rowCount, lanes, laneCount int
	// rowBudget is how many rows the timeline could have.
	rowBudget int
	// legend is the row of the legend, under the lanes; 0: there is none.
	legend int
	// rule is the line above the flamegraph; flame and flameRows the flamegraph.
	rule, flame, flameRows int
	// detail and footer are the last rows; they are the same row on a small terminal.
	detail, footer int
	// nameW, nowW, cellsX, cellsW, sharesW are columns of the timeline.
	nameW, nowW, cellsX, cellsW, sharesW int
}

// demand is what there is to show.
type demand struct {
	// rows is the number of timeline rows; lanes the number of GVL lanes; flameRows the depth of the flamegraph, 0: not
	// known yet.
	rows, lanes, flameRows int
	// longest is the columns that the longest name needs, its indentation included.
	longest int
	// spaced: blank rows between the parts, where the terminal is high enough.
	spaced bool
}

// findingRows is the height of the findings. It does not follow the text's length: the screen must not jump when a finding
// comes or goes.
func findingRows(w, h int) int {
	switch {
	case h >= 46:
		return 4
	case h >= 36, h >= 24 && w < wideWidth:
		return 3
	}
	return 2
}

// spacedHeight is the height from which on there is room for blank rows.
const spacedHeight = 30

// legendHeight is the height from which on the legend has a row of its own. Below it stands where nothing is selected.
const legendHeight = 30

// newRegions shares the terminal out.
func newRegions(w, h int, d demand) regions {
	r := regions{w: w, h: h, findingRows: findingRows(w, h), laneCount: min(d.lanes, maxLanes)}
	gap := 0
	if d.spaced && h >= spacedHeight {
		gap = 1
	}
	r.findings = 1 + gap
	r.gauges = r.findings + r.findingRows + gap
	r.axis = r.gauges + 1 + gap
	r.rows = r.axis + 1
	bottom := 1
	if h >= 24 {
		bottom = 2
	}
	left := h - r.rows - gap - 1 - bottom // without the rule
	if r.laneCount > 1 && left < 24 {
		r.laneCount = 1
	}
	left -= r.laneCount
	legend := 0
	if h >= legendHeight {
		legend = 1
	}
	left -= legend
	// The flamegraph gets two fifths, or less if it is not that deep; and what the timeline does not need.
	least := minFlameRows
	if h < 24 {
		least = 3
	}
	flame := left * 2 / 5
	if d.flameRows > 0 {
		flame = min(flame, d.flameRows)
	}
	r.rowBudget = left - max(flame, least)
	r.rowCount = min(max(d.rows, 1), r.rowBudget)
	r.flameRows = left - r.rowCount
	r.lanes = r.rows + r.rowCount
	if legend > 0 {
		r.legend = r.lanes + r.laneCount
	}
	r.rule = r.lanes + r.laneCount + legend + gap
	r.flame = r.rule + 1
	r.footer = h - 1
	r.detail = h - bottom

	switch {
	case w >= 160:
		r.nameW, r.nowW, r.sharesW = min(max(d.longest, 18), 34), 44, 6*shareW-1
	case w >= wideWidth:
		r.nameW, r.nowW, r.sharesW = min(max(d.longest, 14), 22), 30, 4*shareW-1
	case w >= 80:
		r.nameW, r.nowW, r.sharesW = min(max(d.longest, 12), 15), 16, 2*shareW-1
	default:
		r.nameW, r.nowW, r.sharesW = 13, 9, 0
	}
	r.cellsX = r.nameW + 1 + r.nowW + 1
	r.cellsW = w - r.cellsX
	if r.sharesW > 0 {
		r.cellsW -= r.sharesW + 1
	}
	return r
}
