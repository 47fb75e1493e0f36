package export

import (
	"fmt"
	"strings"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// statExact writes how often threads got the GVL, as exact mode has counted it. It also writes how well exact mode's
// probes worked, which record every change of the GVL.
func statExact(b *strings.Builder, s *report.Stat) {
	x := s.Exact
	if x == nil {
		return
	}
	fmt.Fprintf(b, "exact, %s: ", units.ProseDuration(x.DurationNS))
	if x.Wrong {
		fmt.Fprintf(b, "nothing is told, since %s\n\n", x.Ended)
		return
	}
	fmt.Fprintf(b, "a thread got the GVL %d times\n", x.Turns)
	if x.Ended != "" {
		fmt.Fprintf(b, "it was ended after %s: %s\n", units.ProseDuration(x.DurationNS), x.Ended)
	}
	p := &x.Probes
	if p.Lost > 0 {
		fmt.Fprintf(b, "%d records were lost, and what was around them is doubtful\n", p.Lost)
	}
	seconds := float64(max(x.DurationNS, 1)) / 1e9
	cost := ""
	if p.CPUNS > p.CostNS { // otherwise CPUNS was not read, because the process ended at once
		cost = fmt.Sprintf("some %s of the process's CPU time; ", units.Percent(float64(p.CostNS)/float64(p.CPUNS)))
	}
	fmt.Fprintf(b, "probes: %.0f hits and %.0f records a second, %d lost; %ssampling agreed in %d of %d turns that it saw\n\n",
		float64(p.Hits)/seconds, float64(p.Records)/seconds, p.Lost, cost, p.Agreed, p.Agreed+p.Disagreed)
}

// exactWait writes the parts of a wait for the GVL. It also writes which thread held the GVL when the wait began, and
// which thread held it before the wait ended.
func exactWait(b *strings.Builder, w *report.StatWait, name func(sampler.ThreadID) string) {
	fmt.Fprintf(b, ": %s in the queue, %s after it was chosen, %s without a CPU", units.ProseDuration(w.NS-w.HandoverNS),
		units.ProseDuration(w.HandoverNS), units.ProseDuration(w.NoCPUNS))
	switch {
	case w.FirstHolder == 0 && w.LastHolder == 0:
	case w.FirstHolder == w.LastHolder || w.LastHolder == 0:
		fmt.Fprintf(b, "; held by %s", name(w.FirstHolder))
	case w.FirstHolder == 0:
		fmt.Fprintf(b, "; held by %s last", name(w.LastHolder))
	default:
		fmt.Fprintf(b, "; held by %s first, %s last", name(w.FirstHolder), name(w.LastHolder))
	}
}
