package style

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/ui/internal/canvas"
)

func ValueOr(unknown bool, v float64) float64 {
	if unknown {
		return -1
	}
	return v
}

// AxisTime returns the text for a place on the time axis. It is the time from this place to the end of the axis: "30s",
// "2m30s", "500ms", "1.5ms", "200µs".
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

// Rate formats a frequency: "100 Hz", "1 kHz", "9.8 Hz".
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

// CodeLine returns the name of a function and its place: "Order#total order.rb:3". If the function is a template, its
// name is already its file, so the result is "orders/_row.html.erb:4".
func CodeLine(code, place string) string { return Beside(gvl.AddLine(code, place)) }

// CodeIn returns the name of a function, and its place in brackets: "Order#total (order.rb:3)". If the function is a
// template, its name is already its file, so the result is "orders/_row.html.erb:4".
func CodeIn(code, file string, line int32, uncertain bool) string {
	if file == "" {
		return code
	}
	code, place := gvl.AddLine(code, LineIn(file, line, uncertain))
	if place != "" {
		code += " (" + place + ")"
	}
	return code
}

// Beside puts two texts on one line, with two blanks between them. If one text is empty, it returns only the other one.
func Beside(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "  " + b
}

// LineIn returns a file with a line number: "app.rb:12". If the line cannot be trusted (sampler.Frame.Uncertain), it
// adds a question mark. Line 0 means that the line is not known: LineIn then returns only the file.
func LineIn(file string, line int32, uncertain bool) string {
	if line == 0 {
		return file
	}
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

// Between is the text between two parts of a status line.
const Between = " · "

// FitParts shortens a status line to w columns, by removing parts from its end.
func FitParts(s string, w int) string {
	for canvas.Width(s) > w {
		i := strings.LastIndex(s, Between)
		if i < 0 {
			break
		}
		s = s[:i]
	}
	return s
}

// Wrap breaks a text at spaces into at most n lines of at most w columns. If the text needs more lines, the last line
// is cut, and the result whole is false.
func Wrap(s string, w, n int) (lines []string, whole bool) {
	s = canvas.Clean(s)
	for len(lines) < n-1 && canvas.Width(s) > w {
		at, col := -1, 0
		for i, r := range s {
			if r == ' ' && !unitFollows(s[:i], s[i+1:]) {
				at = i
			}
			if col += canvas.RuneWidth(r); col > w {
				break
			}
		}
		if at <= 0 {
			break
		}
		lines = append(lines, s[:at])
		s = strings.TrimLeft(s[at:], " ")
	}
	return append(lines, canvas.Cut(s, w)), canvas.Width(s) <= w
}

// unitFollows reports whether before ends with a number and after begins with the number's unit. Wrap does not break a
// line between these two.
func unitFollows(before, after string) bool {
	if before == "" || before[len(before)-1] < '0' || before[len(before)-1] > '9' {
		return false
	}
	word, _, _ := strings.Cut(after, " ")
	switch strings.TrimRight(word, ".,;:)") {
	case "%", "ns", "µs", "ms", "s", "B", "kB", "MB", "GB":
		return true
	}
	return false
}

// Fit chooses one of several forms of a text, of which the longest comes first. It returns the first form that fits
// into w columns. If none fits, it cuts the last form.
func Fit(forms []string, w int) string {
	for _, s := range forms {
		if canvas.Width(s) <= w {
			return s
		}
	}
	return canvas.Cut(forms[len(forms)-1], w)
}

// Metrics are the quantities that the flamegraph can measure. The key w goes through them in this order.
var Metrics = []flamegraph.Metric{flamegraph.Wall, flamegraph.CPU, flamegraph.Wait, flamegraph.Blame, flamegraph.Allocations}

// MetricName returns the words that the screen uses for a metric of the flamegraph.
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

// NothingOf returns the text to show if the flamegraph is empty, because no stack has a weight in this metric.
func NothingOf(m flamegraph.Metric) string {
	switch m {
	case flamegraph.Blame:
		return "no thread made others wait for the GVL"
	case flamegraph.Wait:
		return "no thread waited for the GVL"
	}
	return "no " + MetricName(m) + " here"
}

// Measure returns an amount as text, in the unit of a metric of the flamegraph. Allocations are estimates, so they are
// rounded to two digits.
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

// Estimated returns a text that says how exact an estimate of allocations is: "estimate ±5 %", or "too few seen".
func Estimated(a flamegraph.AllocEstimate) string {
	if !a.Enough() {
		return "too few seen"
	}
	return "estimate " + Uncertainty(a)
}

// Uncertainty returns how large the error of an estimate may be, rounded up: "±5 %".
func Uncertainty(a flamegraph.AllocEstimate) string {
	return fmt.Sprintf("±%.0f %%", math.Ceil(a.Error()*100))
}

// TooFew returns why no shares of allocations can be shown yet: too few allocations were seen. It returns "" if shares
// can be shown.
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
