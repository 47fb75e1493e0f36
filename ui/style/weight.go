package style

import (
	"fmt"
	"math"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
)

// Metrics are the weights that w goes through.
var Metrics = []flamegraph.Metric{flamegraph.Wall, flamegraph.CPU, flamegraph.Wait, flamegraph.Blame, flamegraph.Allocations}

// MetricName is the word for a weight on the screen.
func MetricName(m flamegraph.Metric) string {
	switch m {
	case flamegraph.CPU:
		return "CPU time"
	case flamegraph.Wait:
		return "waiting for the GVL"
	case flamegraph.Blame:
		return "blame: makes others wait"
	case flamegraph.Samples:
		return "samples"
	case flamegraph.Allocations:
		return "allocation"
	}
	return "wall time"
}

// NothingOf says why there is nothing to draw by a weight.
func NothingOf(m flamegraph.Metric) string {
	switch m {
	case flamegraph.Blame:
		return "nobody made others wait for the GVL"
	case flamegraph.Wait:
		return "nobody waited for the GVL"
	}
	return "no " + MetricName(m) + " here"
}

// Measure prints an amount of a weight. Allocations are an estimate, so no digits beyond the second are shown.
func Measure(m flamegraph.Metric, n int64) string {
	switch m {
	case flamegraph.Samples:
		return units.Count(n)
	case flamegraph.Allocations:
		return "≈" + units.Count(roundTo2(n)) + " objects"
	}
	return units.Duration(n)
}

// roundTo2 rounds to two significant digits.
func roundTo2(n int64) int64 {
	if n < 100 {
		return n
	}
	unit := math.Pow10(int(math.Log10(float64(n))) - 1)
	return int64(math.Round(float64(n)/unit) * unit)
}

// Estimated says how good an estimate of allocations is: "estimate ±5 %", or that it is none yet.
func Estimated(a flamegraph.AllocEstimate) string {
	if !a.Enough() {
		return "too few seen"
	}
	return "estimate " + Uncertainty(a)
}

// Uncertainty is the error of an estimate, rounded up: "±5 %".
func Uncertainty(a flamegraph.AllocEstimate) string {
	return fmt.Sprintf("±%.0f %%", math.Ceil(a.Error()*100))
}

// TooFew says why allocations have no shares yet; "" when they have.
func TooFew(a flamegraph.AllocEstimate) string {
	switch {
	case a.Enough():
		return ""
	case a.Objects == 0 && a.Ticks == 0:
		return "no allocation was seen here (or the collector's counters can't be read)"
	}
	return fmt.Sprintf("%s objects, seen being allocated %d times: %d are needed to tell by whom; a longer time { has more",
		units.Count(a.Objects), a.Ticks, flamegraph.MinAllocTicks)
}
