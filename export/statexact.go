package export

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler/exact"
)

// maxExactThreads is how many threads the table of exact mode has.
const maxExactThreads = 40

// statExact writes what exact mode saw.
func statExact(b *strings.Builder, s *gvl.Stat) {
	x := s.Exact
	if x == nil {
		return
	}
	name := nativeNames(s)
	fmt.Fprintf(b, "exact, %s: ", units.ProseDuration(x.DurationNS))
	if x.Wrong {
		fmt.Fprintf(b, "nothing is told, since %s\n\n", x.Ended)
		return
	}
	share := func(ns int64) string { return units.Percent(float64(ns) / float64(max(x.DurationNS, 1))) }
	fmt.Fprintf(b, "GVL held %s, %.2f threads wait on average, %d turns", share(x.HeldNS), float64(x.WaitingNS)/float64(max(x.DurationNS, 1)), x.Turns)
	if w := &x.Waits; w.Count > 0 {
		fmt.Fprintf(b, "; %d waits, p50 %s, p90 %s, p99 %s, max %s\n", w.Count, units.ProseDuration(w.P50NS), units.ProseDuration(w.P90NS),
			units.ProseDuration(w.P99NS), units.ProseDuration(w.MaxNS))
		whole := float64(max(w.QueueNS+w.HandoverNS, 1))
		fmt.Fprintf(b, "of the waiting %s was in the queue, %s after a thread was chosen; %s without a CPU", units.Percent(float64(w.QueueNS)/whole),
			units.Percent(float64(w.HandoverNS)/whole), units.Percent(float64(w.NoCPUNS)/whole))
	}
	fmt.Fprintln(b)
	if x.Ended != "" {
		fmt.Fprintf(b, "it was ended after %s: %s\n", units.ProseDuration(x.DurationNS), x.Ended)
	}
	if x.DoubtfulNS > 0 {
		fmt.Fprintf(b, "%s of threads' time is doubtful: %d records were lost\n", units.ProseDuration(x.DoubtfulNS), x.Probes.Lost)
	}
	exactThreads(b, x, name)
	exactLongest(b, x, name)
	p := &x.Probes
	seconds := float64(max(x.DurationNS, 1)) / 1e9
	fmt.Fprintf(b, "probes: %.0f hits and %.0f records a second, %d lost; some %s of the process's CPU time; sampling agreed in %d of %d turns that it saw\n\n",
		float64(p.Hits)/seconds, float64(p.Records)/seconds, p.Lost, units.Percent(float64(p.CostNS)/float64(max(p.CPUNS, 1))), p.Agreed, p.Agreed+p.Disagreed)
}

func exactThreads(b *strings.Builder, x *exact.Stat, name func(int32) string) {
	if len(x.Threads) == 0 {
		return
	}
	width := 6
	shown := x.Threads[:min(len(x.Threads), maxExactThreads)]
	for i := range shown {
		width = max(width, ansi.StringWidth(name(shown[i].TID)))
	}
	fmt.Fprintf(b, "  %-*s  running  waiting  released     turns     waits  longest wait\n", width, "thread")
	for i := range shown {
		t := &shown[i]
		of := float64(max(t.RunningNS+t.WaitingNS+t.ReleasedNS, 1))
		who := name(t.TID)
		fmt.Fprintf(b, "  %s%s  %7s  %7s  %8s  %8d  %8d  %s\n", who, strings.Repeat(" ", width-ansi.StringWidth(who)), units.Percent(float64(t.RunningNS)/of),
			units.Percent(float64(t.WaitingNS)/of), units.Percent(float64(t.ReleasedNS)/of), t.Turns, t.Waits, units.ProseDuration(t.LongestNS))
	}
	if n := len(x.Threads) - len(shown) + x.Omitted; n > 0 {
		fmt.Fprintf(b, "  and %d more\n", n)
	}
}

func exactLongest(b *strings.Builder, x *exact.Stat, name func(int32) string) {
	if len(x.Longest) == 0 {
		return
	}
	fmt.Fprintln(b, "the longest waits, exact")
	for i := range x.Longest {
		w := &x.Longest[i]
		least := ""
		if w.InProgress {
			least = "≥"
		}
		fmt.Fprintf(b, "  %9s  %s at %s: %s in the queue, %s after it was chosen, %s without a CPU", least+units.ProseDuration(w.NS), name(w.TID),
			units.ProseDuration(w.StartNS-x.StartNS), units.ProseDuration(w.NS-w.HandoverNS), units.ProseDuration(w.HandoverNS), units.ProseDuration(w.NoCPUNS))
		switch {
		case w.FirstHolder == 0 && w.LastHolder == 0:
		case w.FirstHolder == w.LastHolder || w.LastHolder == 0:
			fmt.Fprintf(b, "; held by %s", name(w.FirstHolder))
		case w.FirstHolder == 0:
			fmt.Fprintf(b, "; held by %s last", name(w.LastHolder))
		default:
			fmt.Fprintf(b, "; held by %s first, %s last", name(w.FirstHolder), name(w.LastHolder))
		}
		if w.Doubtful {
			fmt.Fprint(b, " (doubtful)")
		}
		fmt.Fprintln(b)
	}
}

// nativeNames names threads by their native ids.
func nativeNames(s *gvl.Stat) func(int32) string {
	at := make(map[int32]int, len(s.Threads))
	for i := range s.Threads {
		if tid := s.Threads[i].TID; tid != nil {
			at[*tid] = i
		}
	}
	return func(tid int32) string {
		if i, ok := at[tid]; ok {
			return statName(&s.Threads[i])
		}
		return fmt.Sprintf("tid %d", tid)
	}
}
