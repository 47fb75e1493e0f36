package style

import (
	"fmt"
	"strconv"
	"time"

	"github.com/ddtop/ddtop/internal/units"
)

func ValueOr(unknown bool, v float64) float64 {
	if unknown {
		return -1
	}
	return v
}

// AxisTime prints a distance from now for the time axis: "30s", "2m30s", "500ms", "1.5ms", "200µs".
func AxisTime(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d > 0 && d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < time.Second && d%time.Millisecond >= 50*time.Microsecond && d < 100*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute && d%time.Second != 0:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d%time.Minute == 0 && d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return units.LongDuration(d)
}

// Rate prints a frequency: "100 Hz", "1 kHz", "9.8 Hz".
func Rate(hz float64) string {
	switch {
	case hz >= 9950:
		return fmt.Sprintf("%.0f kHz", hz/1000)
	case hz >= 999.5:
		s := fmt.Sprintf("%.1f", hz/1000)
		if s[len(s)-2:] == ".0" {
			s = s[:len(s)-2]
		}
		return s + " kHz"
	case hz >= 9.95:
		return fmt.Sprintf("%.0f Hz", hz)
	}
	return fmt.Sprintf("%.1f Hz", hz)
}

// LineIn writes a line of a file, "app.rb:12"; with a question mark where it can't be trusted (sampler.Frame.Uncertain).
func LineIn(file string, line int32, uncertain bool) string {
	s := file + ":" + strconv.Itoa(int(line))
	if uncertain {
		s += "?"
	}
	return s
}

func Share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
