// Package units writes figures for people: durations, shares, sizes and numbers. Each kind of figure looks the same
// everywhere in ddtop. The package also divides columns and percents among parts.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration returns a time in ns as text for a column, with two or three significant digits: "42 ms", "2.00 s", "4m10s".
func Duration(ns int64) string {
	switch {
	case ns < 0:
		return "–" + Duration(-ns)
	case ns < 1_000:
		return fmt.Sprintf("%d ns", ns)
	case ns < 10_000:
		return fmt.Sprintf("%.1f µs", float64(ns)/1e3)
	}
	if v, decimals, unit := rounded(ns); unit != "" {
		return strconv.FormatFloat(v, 'f', decimals, 64) + " " + unit
	}
	return LongDuration(time.Duration(ns))
}

// ProseDuration returns a time in ns as text for a sentence. It is like Duration, but without zeros at the end ("2 s"),
// with µs as the smallest unit, and "5 min", "2h05m" or "2 h". A negative value is "0 ms".
func ProseDuration(ns int64) string {
	if ns < 0 {
		return "0 ms"
	}
	if v, decimals, unit := rounded(ns); unit != "" {
		return Number(v, decimals) + " " + unit
	}
	s := (ns + 5e8) / 1e9
	switch {
	case s < 3600 && s%60 == 0:
		return fmt.Sprintf("%d min", s/60)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s%3600 < 60:
		return fmt.Sprintf("%d h", s/3600)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
}

// Weight returns a time in ns as text, in a form in which readers can compare times, as in a flame graph. It is like
// Duration, but long times stay in seconds.
func Weight(ns int64) string {
	switch {
	case ns < 0:
		return "-" + Weight(-ns)
	case ns == 0:
		return "0"
	case ns >= 99_950_000_000:
		return fmt.Sprintf("%.0f s", float64(ns)/1e9)
	case ns >= 9_950_000_000:
		return fmt.Sprintf("%.2f s", float64(ns)/1e9)
	case ns >= 1_000 && ns < 10_000:
		return fmt.Sprintf("%.0f µs", float64(ns)/1e3)
	}
	return Duration(ns)
}

// rounded returns a time in ns in the unit that a person would choose. decimals is the number of decimals with which
// the value has at most three significant digits. unit is "" for a minute and more.
func rounded(ns int64) (v float64, decimals int, unit string) {
	switch f := float64(ns); {
	case ns < 999_500:
		return f / 1e3, 0, "µs"
	case ns < 9_950_000:
		return f / 1e6, 1, "ms"
	case ns < 999_500_000:
		return f / 1e6, 0, "ms"
	case ns < 9_950_000_000:
		return f / 1e9, 2, "s"
	case ns < 59_500_000_000:
		return f / 1e9, 1, "s"
	}
	return 0, 0, ""
}

// LongDuration returns a duration as text in seconds, minutes, hours and days: "12s", "4m10s", "3h04m", "3d04h".
func LongDuration(d time.Duration) string {
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

// Percent returns a share (0 to 1) as text in whole percents: "98 %". A positive share that rounds to zero is "<1 %". A
// share below 1 is never "100 %". NaN, which is a share of nothing, is "– %".
func Percent(share float64) string { return WholePercent(share) + " %" }

// WholePercent is like Percent, but without " %": "98".
func WholePercent(share float64) string {
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

// RoundPercent returns a share as text for a sentence, in rounded whole percents. Unlike Percent, it returns "0 %" for
// a tiny share.
func RoundPercent(share float64) string { return strconv.Itoa(int(math.Round(share*100))) + " %" }

// FinePercent returns a small share as text with one decimal: "0.4 %". A positive share that rounds to zero is "<0.1
// %".
func FinePercent(share float64) string {
	switch {
	case share <= 0:
		return "0 %"
	case share < 0.0005:
		return "<0.1 %"
	case share < 0.0995:
		return fmt.Sprintf("%.1f %%", share*100)
	}
	return Percent(share)
}

// Bytes returns a size as text in powers of ten, as most tools for people do: "512 MB".
func Bytes(n int64) string {
	switch f := float64(n); {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.0f kB", f/1e3)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f MB", f/1e6)
	case n < 1_000_000_000:
		return fmt.Sprintf("%.0f MB", f/1e6)
	default:
		return fmt.Sprintf("%.1f GB", f/1e9)
	}
}

// FineBytes is like Bytes, but has one decimal for all megabytes: "51.2 MB".
func FineBytes(n int64) string {
	if n < 1_000_000 || n >= 1_000_000_000 {
		return Bytes(n)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

// Number returns v as text with at most the given number of decimals, without zeros at the end.
func Number(v float64, decimals int) string {
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.ContainsRune(s, '.') {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Count returns a number as text with commas between thousands: "18,204".
func Count(n int64) string {
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

// Plural returns a number with the right form of its noun: "1 thread waits", "3 threads wait".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
