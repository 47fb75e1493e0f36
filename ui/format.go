package ui

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// percent prints a share (0 to 1) as whole percents: "98 %". What is there but rounds to nothing is "<1 %", and what
// is short of everything is never "100 %".
func percent(share float64) string { return percentNumber(share) + " %" }

// finePercent prints a small share with a decimal: "0.4 %"; what rounds to nothing is "<0.1 %".
func finePercent(share float64) string {
	switch {
	case share <= 0:
		return "0 %"
	case share < 0.0005:
		return "<0.1 %"
	case share < 0.0995:
		return fmt.Sprintf("%.1f %%", share*100)
	}
	return percent(share)
}

func percentNumber(share float64) string {
	switch {
	case math.IsNaN(share):
		return "–"
	case share <= 0:
		return "0"
	case share < 0.005:
		return "<1"
	case share >= 0.995 && share < 1:
		return "99"
	}
	return strconv.Itoa(int(math.Round(share * 100)))
}

// duration prints ns with two or three significant digits in the unit a person would choose.
func duration(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d < 0:
		return "–" + duration(-ns)
	case d < time.Microsecond:
		return fmt.Sprintf("%d ns", ns)
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.1f µs", float64(ns)/1e3)
	case d < 999500*time.Nanosecond:
		return fmt.Sprintf("%.0f µs", float64(ns)/1e3)
	case d < 9950*time.Microsecond:
		return fmt.Sprintf("%.1f ms", float64(ns)/1e6)
	case d < 999500*time.Microsecond:
		return fmt.Sprintf("%.0f ms", float64(ns)/1e6)
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.2f s", float64(ns)/1e9)
	case d < 59500*time.Millisecond:
		return fmt.Sprintf("%.1f s", float64(ns)/1e9)
	}
	return longDuration(d)
}

// longDuration prints minutes, hours and days: "4m10s", "3h04m", "3d04h".
func longDuration(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s%86400/3600)
}

// axisTime prints a distance from now for the time axis: "30s", "2m30s", "500ms".
func axisTime(ns int64) string {
	d := time.Duration(ns)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute && d%time.Second != 0:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d%time.Minute == 0 && d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return longDuration(d)
}

// size prints bytes: "512 MB", in powers of ten as most tools for people do.
func size(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.0f kB", float64(n)/1e3)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.0f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// count prints a number with thousands separated: "18,204".
func count(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// rate prints a frequency: "100 Hz", "1 kHz", "9.8 Hz".
func rate(hz float64) string {
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

// lineIn writes a line of a file, "app.rb:12"; with a question mark where it can't be trusted (sampler.Frame.Uncertain).
func lineIn(file string, line int32, uncertain bool) string {
	s := file + ":" + strconv.Itoa(int(line))
	if uncertain {
		s += "?"
	}
	return s
}

// several writes how many of something there are, whose name takes an s: "1 frame", "2 frames".
func several(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
