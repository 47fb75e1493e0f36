package export

import (
	"fmt"
	"math"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
)

// statCapacity writes what fewer and more threads would change: "threads  3 instead of 5: throughput −2 %, time lost
// to the GVL 29 % → 9 %; 7: +1 %, 41 %".
func statCapacity(b *strings.Builder, c *report.StatCapacity) {
	if c == nil {
		return
	}
	if c.Why != nil {
		fmt.Fprintf(b, "threads  %d; no prediction for another number: %s\n\n", c.Threads, flamegraph.Printable(*c.Why))
		return
	}
	now, ok := c.At(c.Threads)
	if !ok {
		return
	}
	fmt.Fprint(b, "threads  ")
	for i, n := range otherNumbers(c.Threads) {
		p, ok := c.At(n)
		switch {
		case !ok:
		case i == 0:
			fmt.Fprintf(b, "%d instead of %d: throughput %s, time lost to the GVL %s → %s", n, c.Threads,
				change(p.Throughput-1), units.RoundPercent(now.WaitingShare), units.RoundPercent(p.WaitingShare))
		default:
			fmt.Fprintf(b, "; %d: %s, %s", n, change(p.Throughput-1), units.RoundPercent(p.WaitingShare))
		}
	}
	fmt.Fprintf(b, "\n         predicted for full load from %s; on average %.1f of %s had one\n",
		units.Plural(c.Requests, c.Work, c.Work+"s"), c.BusyMean, units.Plural(c.Threads, "thread", "threads"))
	fmt.Fprintf(b, "         to predict more than %s, measure with more than %d\n\n",
		units.Plural(len(c.Curve), "thread", "threads"), c.Threads)
}

// otherNumbers returns a smaller and a larger number of threads than n. For one thread it returns two larger numbers.
func otherNumbers(n int) []int {
	step := max(1, int(math.Round(.4*float64(n))))
	if n == 1 {
		return []int{2, 3}
	}
	return []int{n - step, n + step}
}

// change returns a share as text in percent, with its sign.
func change(share float64) string {
	text := units.RoundPercent(math.Abs(share))
	switch {
	case math.Abs(share) < .005:
		return "the same"
	case share < 0:
		return "−" + text
	}
	return "+" + text
}

// oneMoreWorker predicts what one more worker process would change. It returns nil unless at least two processes serve
// requests and all figures are known.
func oneMoreWorker(list []ProcessStat) *report.StatWorkers {
	var out report.StatWorkers
	for i := range list {
		s := &list[i].Stat
		c := s.Capacity
		if c == nil {
			continue
		}
		if c.Why != nil || c.Load <= 0 || s.Process.SpanNS <= 0 || list[i].Process.CPUs <= 0 {
			return nil
		}
		out.Workers++
		out.CPUs = list[i].Process.CPUs
		out.UsedCPUs += float64(s.Process.CPUNS) / float64(s.Process.SpanNS) / c.Load
	}
	if out.Workers < 2 || out.UsedCPUs <= 0 {
		return nil
	}
	out.OneMore = max(min(1/float64(out.Workers), float64(out.CPUs)/out.UsedCPUs-1), 0)
	return &out
}

// writeWorkers writes what a further process would change: "workers  3 instead of 2: throughput at most +12 %; at full
// load 2 use 1.8 of 2 CPUs".
func writeWorkers(b *strings.Builder, w *report.StatWorkers) {
	if w == nil {
		return
	}
	most := ""
	if w.OneMore >= .005 && w.OneMore < 1/float64(w.Workers) {
		most = "at most "
	}
	fmt.Fprintf(b, "workers  %d instead of %d: throughput %s%s; at full load %d use %.1f of %s\n", w.Workers+1, w.Workers,
		most, change(w.OneMore), w.Workers, w.UsedCPUs, units.Plural(w.CPUs, "CPU", "CPUs"))
}
