package flamegraph

import (
	"fmt"

	"github.com/ddtop/ddtop/internal/units"
)

// format prints a weight of the metric: a duration, or a number of samples.
func (m Metric) format(v int64) string {
	switch {
	case m.IsTime():
		return units.Weight(v)
	case v == 1:
		return "1 sample"
	}
	return fmt.Sprintf("%d samples", v)
}

// formatShare returns part as a percentage of whole, with more digits for a small share. It returns "–" if whole is
// zero.
func formatShare(part, whole int64) string {
	if whole <= 0 {
		return "–"
	}
	switch f := 100 * float64(part) / float64(whole); {
	case part == whole:
		return "100 %"
	case f >= 99.95:
		return "99.9 %"
	case f > 0 && f < 0.01:
		return "<0.01 %"
	case f < 1:
		return fmt.Sprintf("%.2f %%", f)
	default:
		return fmt.Sprintf("%.1f %%", f)
	}
}
