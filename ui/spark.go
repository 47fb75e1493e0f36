package ui

import (
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

// sparkLevels are the heights of a sparkline; a value above nothing never looks like nothing.
var sparkLevels = []rune("▁▂▃▄▅▆▇█")

// drawSpark draws one column a value, newest on the right, scaled so that top is the full height. Values without a
// measurement are negative and stay blank.
func drawSpark(a canvas.Area, x int, values []float64, top float64, st canvas.Style) int {
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
