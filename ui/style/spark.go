package style

import (
	"strings"

	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// sparkLevels are the heights of a sparkline. Nothing has the lowest, as a base line.
var sparkLevels = []rune("▁▂▃▄▅▆▇█")

// DrawSpark draws one column a value, newest on the right, scaled so that top is the full height. Values without a
// measurement are negative and stay blank.
func DrawSpark(a canvas.Area, x int, values []float64, top float64, st canvas.Style) int {
	for _, v := range values {
		switch {
		case v < 0:
			a.Rune(x, 0, ' ', st)
		default:
			i := 0
			if top > 0 && v > 0 {
				i = min(int(v/top*float64(len(sparkLevels)-1)+0.5), len(sparkLevels)-1)
			}
			a.Rune(x, 0, sparkLevels[i], st)
		}
		x++
	}
	return x
}

// DrawColumn draws one column of a chart as high as its area, from the bottom, to a share of the height, in eighths of a row: less
// than half of one is not drawn. An eighth of a row stays free at the top: without colours a full chart and the one above it would be
// one block.
func DrawColumn(a canvas.Area, x int, share float64, st canvas.Style) {
	eighths := min(int(share*float64(8*a.H)+0.5), 8*a.H-1)
	for y := a.H - 1; y >= 0 && eighths > 0; y-- {
		n := min(eighths, 8)
		a.Rune(x, y, sparkLevels[n-1], st)
		eighths -= n
	}
}

// Bar draws a share (0 to 1) in w columns.
func Bar(share float64, w int) string {
	n := min(max(int(share*float64(w)+0.5), 0), w)
	return strings.Repeat("█", n) + strings.Repeat("░", w-n)
}
