package export

import (
	"fmt"
	"io"
	"strings"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
)

// StatLinesHead returns the heading for the lines that WriteStatLine writes. If several is true, it has a column for
// the process.
func StatLinesHead(several bool) string {
	pid := ""
	if several {
		pid = fmt.Sprintf("%8s ", "pid")
	}
	return pid + fmt.Sprintf("%-8s %4s %4s %5s %5s %5s %4s %6s %5s %5s %5s %4s %6s %6s %5s %4s %9s %5s %6s\n", "time", "thr", "GVL", "wait", "run", "stall", "gc",
		"native", "io", "lock", "rest", "?", "p99", "max", "GCs", "GC", "alloc/s", "CPU", "RSS")
}

// WriteStatLine writes a line for people: the use of the GVL, the mean number of threads in each state (rest: parked
// or asleep), ended waits for the GVL, collections and their share of time, allocated objects, CPU and memory.
func WriteStatLine(w io.Writer, l report.TimedLine, several bool) error {
	mean := func(ns int64) string {
		if l.DurationNS == 0 || !l.NS.Enough() {
			return "–"
		}
		v := float64(ns) / float64(l.DurationNS)
		if ns == 0 {
			return "0"
		}
		return units.Number(v, 2)
	}
	p99, longest, allocated, cpu, rss := "–", "–", "–", "–", "–"
	if l.Waits.Count > 0 && l.Waits.Enough() {
		p99, longest = column(l.Waits.P99().Duration()), column(l.Waits.Longest().Duration())
	}
	if l.Allocated != nil && l.DurationNS > 0 {
		allocated = units.Count(int64(float64(*l.Allocated) / (float64(l.DurationNS) / 1e9)))
	}
	if l.CPUShare != nil {
		cpu = units.WholePercent(*l.CPUShare) + "%"
	}
	if l.RSSBytes > 0 {
		rss = column(units.Bytes(l.RSSBytes))
	}
	held, gc := "–", "–"
	if l.HeldShare.Told() {
		held = units.WholePercent(float64(l.HeldShare)) + "%"
	}
	if l.GC.Enough() {
		gc = units.WholePercent(l.GC.Share) + "%"
	}
	n := &l.NS
	pid := ""
	if several {
		pid = fmt.Sprintf("%8d ", l.PID)
	}
	_, err := fmt.Fprintf(w, "%s%-8s %4d %4s %5s %5s %5s %4s %6s %5s %5s %5s %4s %6s %6s %5d %4s %9s %5s %6s\n", pid, l.Time.Format("15:04:05"), l.Threads,
		held, mean(n.Waiting), mean(n.Running), mean(n.Stalled), mean(n.GC), mean(n.Native), mean(n.IO), mean(n.Lock),
		mean(n.Parked+n.Sleeping), mean(n.Unknown), p99, longest, l.GC.Count, gc, allocated, cpu, rss)
	return err
}

// column removes the blanks within a figure, so that a script that splits a line at blanks gets one part for each
// column.
func column(s string) string { return strings.ReplaceAll(s, " ", "") }

// WriteStatLineJSON writes a line of `ddtop stat` as JSON.
func WriteStatLineJSON(w io.Writer, l report.TimedLine) error { return WriteCompactJSON(w, l) }
