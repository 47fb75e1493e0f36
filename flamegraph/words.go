package flamegraph

import "fmt"

// FormatNS prints a duration in ns in the unit a person would choose: "2.3 ms".
func FormatNS(ns int64) string {
	switch f := float64(ns); {
	case ns < 0:
		return "-" + FormatNS(-ns)
	case ns == 0:
		return "0"
	case ns < 1000:
		return fmt.Sprintf("%d ns", ns)
	case ns < 999_500:
		return fmt.Sprintf("%.0f µs", f/1e3)
	case ns < 9_950_000:
		return fmt.Sprintf("%.1f ms", f/1e6)
	case ns < 999_500_000:
		return fmt.Sprintf("%.0f ms", f/1e6)
	case ns < 99_950_000_000:
		return fmt.Sprintf("%.2f s", f/1e9)
	default:
		return fmt.Sprintf("%.0f s", f/1e9)
	}
}

// Format prints a weight of the metric: a duration, or a number of samples.
func (m Metric) Format(v int64) string {
	switch {
	case m.IsTime():
		return FormatNS(v)
	case v == 1:
		return "1 sample"
	}
	return fmt.Sprintf("%d samples", v)
}

// formatShare prints part of whole in percent, with the digits that a small share needs; "–" of nothing.
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
