package export

import (
	"fmt"

	"github.com/ddtop/ddtop/gvl"
)

// span prints a duration in ns in the unit a person would choose.
func span(ns int64) string { return gvl.FormatNS(ns) }

// percent prints a share of 0 to 1; what is there but rounds to nothing is "<1 %", what is missing something is never
// "100 %".
func percent(f float64) string {
	switch {
	case f <= 0:
		return "0 %"
	case f < 0.005:
		return "<1 %"
	case f >= 0.995 && f < 1:
		return "99 %"
	}
	return fmt.Sprintf("%.0f %%", f*100)
}

func share(part, whole int64) string {
	if whole <= 0 {
		return "–"
	}
	return percent(float64(part) / float64(whole))
}

func bytesText(n int64) string {
	switch f := float64(n); {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.0f kB", f/1e3)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.1f MB", f/1e6)
	default:
		return fmt.Sprintf("%.1f GB", f/1e9)
	}
}

// threadsText is a number of threads: "1 thread", "17 threads".
func threadsText(n int) string {
	if n == 1 {
		return "1 thread"
	}
	return fmt.Sprintf("%d threads", n)
}
