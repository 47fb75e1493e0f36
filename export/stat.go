package export

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// statNameWidth limits the width of a thread's name in the table, in columns.
const statNameWidth = 28

// WriteStatJSON writes the JSON of `ddtop stat`, with the notes of a recording.
func WriteStatJSON(w io.Writer, s report.Stat, notes ...sampler.Note) error {
	d := report.StatDocument{Stat: s, Notes: []report.StatNote{}}
	for _, n := range notes {
		d.Notes = append(d.Notes, report.StatNote{AtNS: n.AtNS, Text: n.Text})
	}
	return WriteJSON(w, d)
}

// WriteStat writes the table of `ddtop stat` for people. It begins with the GVL, waiting, garbage collection,
// findings, and the notes of a recording. Then comes a row for each thread, the busiest first, with the share of its
// time in each state. Then come requests and jobs by endpoint, the causes of waiting, the longest waits, and the C
// code in which blocked threads wait. Next are the probes of exact mode, threads unknown to Ruby, and what another
// number of threads would change. The last lines show the quality and cost of sampling.
func WriteStat(w io.Writer, s report.Stat, notes ...sampler.Note) error {
	var b strings.Builder
	statHead(&b, s)
	writeFindings(&b, s.Findings, s.StartNS)
	statNotes(&b, notes, s.StartNS)
	statThreads(&b, s)
	statRequests(&b, s)
	statBlame(&b, s)
	statLongest(&b, s)
	statNativeWaits(&b, &s)
	statExact(&b, &s)
	statNative(&b, s)
	statCapacity(&b, s.Capacity)
	statFoot(&b, s)
	_, err := io.WriteString(w, b.String())
	return err
}

func statHead(b *strings.Builder, s report.Stat) {
	fmt.Fprintf(b, "pid %d, %s, %s\n", s.PID, units.ProseDuration(s.DurationNS), units.Plural(len(s.Threads), "thread", "threads"))
	for _, g := range s.GVL {
		name := "GVL"
		if len(s.GVL) > 1 {
			name = fmt.Sprintf("GVL of ractor %d", g.Ractor)
		}
		if s.Quality.Lacks.States == nil {
			fmt.Fprintf(b, "%s  held %s, %.2f threads wait on average", name, units.Percent(g.HeldShare), g.WaitingMean)
		} else {
			fmt.Fprintf(b, "%s  held –, – threads wait on average", name)
		}
		if !g.Waits.Enough() {
			fmt.Fprintln(b, "; – waits")
			continue
		}
		if g.Waits.Count > 0 {
			w := &g.Waits
			fmt.Fprintf(b, "; %d waits, p50 %s, p90 %s, p99 %s, max %s", w.Count, w.P50().Prose(), w.P90().Prose(), w.P99().Prose(), w.Max().Prose())
		}
		fmt.Fprintln(b)
		waitingText(b, &g.Waits)
	}
	statGC(b, s)
	statAlloc(b, &s.Alloc)
	statHalted(b, &s.Process)
	fmt.Fprintf(b, "CPU  %s", CPUText(&s.Process))
	if s.Process.CPUNS > 0 {
		fmt.Fprintf(b, " (%s in the kernel)", Share(s.Process.SystemNS, s.Process.SpanNS))
	}
	if n, d := s.Process.Switches, s.Process.SwitchesSpanNS; n > 0 && d > 0 {
		fmt.Fprintf(b, ", %.0f context switches a second", float64(n)/(float64(d)/1e9))
	}
	if s.Process.ThrottledNS > 0 {
		fmt.Fprintf(b, ", throttled for %s", units.ProseDuration(s.Process.ThrottledNS))
	}
	if s.Process.RSSBytes > 0 {
		fmt.Fprintf(b, "; memory %s", units.FineBytes(s.Process.RSSBytes))
		if n := s.Process.PSSBytes; n > 0 {
			fmt.Fprintf(b, " (PSS %s)", units.FineBytes(n))
		}
	}
	if s.Process.SwapBytes > 0 {
		fmt.Fprintf(b, ", swapped out %s", units.FineBytes(s.Process.SwapBytes))
	}
	statPressure(b, &s)
	fmt.Fprintln(b)
	statQueues(b, s.Queues)
	fmt.Fprintln(b)
}

// tooShort is printed instead of a share if the measured time was too short to determine the share.
const tooShort = "too short to tell"

// cpuTickNS is the unit in which the kernel reports a process's CPU time, in ns (USER_HZ, proc_pid_stat(5)). The kernel
// rounds user time and system time down separately, so their sum can be two units too small.
const cpuTickNS = 10e6

// CPUText returns how much of a CPU the process used, in percent. If the kernel's rounding of CPU times matters (1 % or
// more), the text ends with the possible error, such as "± 3 %".
func CPUText(p *report.StatProcess) string {
	if p.SpanNS <= 0 {
		return tooShort
	}
	text := Share(p.CPUNS, p.SpanNS)
	if off := float64(2*cpuTickNS) / float64(p.SpanNS); off >= .01 {
		text += " ± " + units.Percent(off)
	}
	return text
}

// SelfText returns ddtop's share of a CPU.
func SelfText(self *report.StatSelf) string {
	if self.CPUNS == nil {
		return "CPU: " + tooShort
	}
	return Share(*self.CPUNS, self.SpanNS) + " of a CPU"
}

// OverheadText describes how much of a CPU ddtop may use, why, and what this changes: "it may take 1.5 % (half of
// --overhead 3%, since no CPU is free), for which it read less often".
func OverheadText(self *report.StatSelf) string {
	most, why := *self.Overhead, "--overhead"
	if self.Halved {
		most, why = most/2, fmt.Sprintf("half of --overhead %g%%, since no CPU is free", 100*most)
	}
	if self.Extended && self.OverheadMost != nil {
		most, why = *self.OverheadMost, fmt.Sprintf("more than the usual %g %%, which would show too little", 100*most)
	}
	text := fmt.Sprintf("it may take %g %% (%s)", 100*most, why)
	if self.Lowered {
		text += ", for which it read less often"
	}
	return text
}

// stoppedText and frozenText explain why nothing runs in a stopped or frozen process.
const (
	stoppedText = "the process is stopped: a signal (SIGSTOP, SIGTSTP) or a debugger holds all of its threads"
	frozenText  = "the process is frozen by its cgroup (docker pause, systemctl freeze): nothing in it runs"
)

// statHalted writes whether a signal, a debugger or the cgroup stops the process, and for how long it was stopped.
func statHalted(b *strings.Builder, p *report.StatProcess) {
	if p.Stopped {
		fmt.Fprintln(b, stoppedText)
	}
	switch ns := units.ProseDuration(p.FrozenNS); {
	case p.Frozen && p.FrozenNS > 0:
		fmt.Fprintf(b, "%s; for %s of the window\n", frozenText, ns)
	case p.Frozen:
		fmt.Fprintln(b, frozenText)
	case p.FrozenNS > 0:
		fmt.Fprintf(b, "the process was frozen by its cgroup for %s of the window\n", ns)
	}
	if !p.Stopped && p.StoppedNS > 0 {
		fmt.Fprintf(b, "the process was stopped by a signal or a debugger for %s of the window\n", units.ProseDuration(p.StoppedNS))
	}
}

// statPressure writes how long tasks waited for CPU, memory or I/O (pressure stall information). It writes nothing if
// no task waited.
func statPressure(b *strings.Builder, s *report.Stat) {
	p := &s.Process.Pressure
	if p.CPUSomeNS+p.MemorySomeNS+p.IOSomeNS == 0 {
		return
	}
	fmt.Fprintf(b, "; pressure on the %s: CPU %s, memory %s (all tasks %s), I/O %s (%s)", p.Source, Share(p.CPUSomeNS, s.DurationNS),
		Share(p.MemorySomeNS, s.DurationNS), Share(p.MemoryFullNS, s.DurationNS), Share(p.IOSomeNS, s.DurationNS), Share(p.IOFullNS, s.DurationNS))
}

// statColumn is one column of the table.
type statColumn struct {
	head string
	text func(*report.StatThread) string
}

func stateColumn(s gvl.State) statColumn {
	return statColumn{s.Short(), func(t *report.StatThread) string {
		if !t.NS.Enough() {
			return "–"
		}
		ns := t.NS.Array()[s]
		if ns == 0 {
			return "·" // a dot, because many "0 %" would hide the other figures
		}
		return Share(ns, t.NS.Sum())
	}}
}

func statColumns() (columns []statColumn) {
	for _, s := range gvl.InColumns {
		columns = append(columns, stateColumn(s))
	}
	return append(columns, []statColumn{
		{"no cpu", func(t *report.StatThread) string {
			ns := t.NoCPU.Running + t.NoCPU.GC + t.NoCPU.Native
			if !t.NoCPU.Enough() {
				return "–"
			}
			if ns == 0 {
				return "·"
			}
			return Share(ns, t.NS.Sum())
		}},
		{"cpu", func(t *report.StatThread) string {
			if t.CPUNS == nil {
				return "–"
			}
			return units.ProseDuration(*t.CPUNS)
		}},
		{"waits", func(t *report.StatThread) string {
			if !t.Waits.Enough() {
				return "–"
			}
			return fmt.Sprint(t.Waits.Count)
		}},
		{"p50", func(t *report.StatThread) string { return WaitSpan(t, t.Waits.P50()) }},
		{"p90", func(t *report.StatThread) string { return WaitSpan(t, t.Waits.P90()) }},
		{"p99", func(t *report.StatThread) string { return WaitSpan(t, t.Waits.P99()) }},
		{"max", func(t *report.StatThread) string { return WaitSpan(t, t.Waits.Max()) }},
	}...)
}

// WaitSpan formats f, which is a figure about how long the thread t waited for the GVL, such as its longest wait. It
// returns "–" if t did not wait, or if too few of its waits were measured.
func WaitSpan(t *report.StatThread, f gvl.Bounded) string {
	if t.Waits.Count == 0 || !t.Waits.Enough() {
		return "–"
	}
	return f.Prose()
}

func statThreads(b *strings.Builder, s report.Stat) {
	threads := slices.Clone(s.Threads)
	busy := func(t *report.StatThread) int64 { return t.NS.Running + t.NS.Stalled + t.NS.GC + t.NS.Waiting }
	sorting.StableBy(threads, func(x, y report.StatThread) int { return cmp.Compare(busy(&y), busy(&x)) })
	columns := statColumns()
	rows := [][]string{{"thread", "tid"}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.head)
	}
	for i := range threads {
		t := &threads[i]
		row := []string{statName(t), "–"}
		if t.TID != nil {
			row[1] = fmt.Sprint(*t.TID)
		}
		for _, c := range columns {
			row = append(row, c.text(t))
		}
		rows = append(rows, row)
	}
	writeTable(b, rows)
	fmt.Fprintln(b)
}

func statName(t *report.StatThread) string {
	name := fmt.Sprintf("#%d", t.ID)
	switch {
	case t.FullName != "":
		name = flamegraph.Printable(t.FullName)
	case t.Name != nil && *t.Name != "":
		name = flamegraph.Printable(*t.Name)
	case t.Main:
		name = "main"
	}
	name = ansi.Truncate(name, statNameWidth, "…")
	if t.Gone {
		name += " (gone)"
	}
	return name
}

// writeTable writes rows. It aligns the first column to the left and the others to the right.
func writeTable(b *strings.Builder, rows [][]string) {
	var widths []int
	for _, r := range rows {
		for i, c := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], ansi.StringWidth(c))
		}
	}
	for _, r := range rows {
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-ansi.StringWidth(c))
			switch {
			case i == 0:
				fmt.Fprint(b, c, pad)
			default:
				fmt.Fprint(b, "  ", pad, c)
			}
		}
		fmt.Fprintln(b)
	}
}

// statSource writes how ddtop learned the states of threads, such as from thread switches. If ddtop only polled,
// statSource writes why no better source was used. If ddtop only polled and there is no such reason, it writes nothing.
func statSource(b *strings.Builder, s *report.Stat) {
	x := s.Source
	if x == nil || x.Kind == "polling" && x.Why == "" {
		return
	}
	seconds := float64(max(s.DurationNS, 1)) / 1e9
	switch {
	case x.Kind == "moved":
		fmt.Fprintf(b, "by the moves of threads: %.0f records a second; what threads did between two looks at memory is concluded", float64(x.Records)/seconds)
		if x.Lost > 0 {
			fmt.Fprintf(b, "; %d had no room", x.Lost)
		}
		if x.Why != "" {
			fmt.Fprintf(b, "; polled from then on: %s", flamegraph.Printable(x.Why))
		}
	case x.Kind != "switches" && x.Records == 0:
		fmt.Fprintf(b, "by polling: %s", flamegraph.Printable(x.Why))
	default:
		fmt.Fprintf(b, "by thread switches: %.0f records a second, which take the kernel %s of a CPU", float64(x.Records)/seconds,
			units.FinePercent(float64(x.KernelNS)/1e9/seconds))
		if x.Lost > 0 {
			fmt.Fprintf(b, "; %d had no room", x.Lost)
		}
		if x.FailedWords > 0 {
			fmt.Fprintf(b, "; %d words of memory could not be read", x.FailedWords)
		}
		if x.Why != "" {
			fmt.Fprintf(b, "; polled from then on: %s", flamegraph.Printable(x.Why))
		}
	}
	fmt.Fprintln(b)
}

func statFoot(b *strings.Builder, s report.Stat) {
	fmt.Fprintf(b, "sampled %d times: %s stacks, %s lock; torn %d, retried %d, partial %d, failed %d, late %d", s.Samples,
		RateText(s.Rate.Stack), RateText(s.Rate.Lock), s.Torn, s.Retried, s.Partial, s.Failed, s.Late)
	if s.Lost > 0 {
		fmt.Fprintf(b, ", lost %d", s.Lost)
	}
	if s.NotSampled > 0 {
		fmt.Fprintf(b, "; not sampled for %s", units.ProseDuration(s.NotSampled))
	}
	if s.NamesLeftOut > 0 {
		fmt.Fprintf(b, "; names left out %d, since all of them take too much memory", s.NamesLeftOut)
	}
	fmt.Fprintln(b)
	statNativeReads(b, s.NativeReads)
	statLacks(b, &s)
	statSource(b, &s)
	for _, g := range s.GVL {
		if g.Waits.Count > 0 && g.Waits.Enough() {
			if s.Source != nil && s.Source.Kind == "moved" {
				fmt.Fprintln(b, "waits are concluded from when threads moved, and from looks at memory in between")
				break
			}
			fmt.Fprint(b, g.Waits.Known())
			if s.ExactNS > 0 && g.Waits.ResolutionNS > 0 {
				fmt.Fprintf(b, ", but for %s of the time, of which every change of the GVL was seen", Share(s.ExactNS, s.DurationNS))
			}
			fmt.Fprintln(b)
			break
		}
	}
	if p := s.Pauses; p.Count > 0 {
		fmt.Fprintf(b, "stopped the process %d times: p50 %s, p99 %s, max %s, in all %s of the time", p.Count, units.ProseDuration(p.P50NS), units.ProseDuration(p.P99NS),
			units.ProseDuration(p.MaxNS), Share(p.TotalNS, s.DurationNS))
		if p.Cut > 0 {
			fmt.Fprintf(b, "; %d of them cut short", p.Cut)
		}
		fmt.Fprintln(b)
	}
	fmt.Fprintf(b, "ddtop itself: %s, %s memory", SelfText(&s.Self), units.FineBytes(s.Self.MaxRSSBytes))
	if s.Self.PriorityNote != "" {
		fmt.Fprintf(b, "; %s", s.Self.PriorityNote)
	}
	if s.Self.Overhead != nil {
		fmt.Fprintf(b, "; %s", OverheadText(&s.Self))
	}
	fmt.Fprintln(b)
}

// LacksText returns sentences about the figures that stat does not show because their quality is too low, such as
// shares of time. Each sentence is about one kind of figure and gives the reason.
func LacksText(l *report.StatLacks) []string {
	var out []string
	for _, x := range []struct {
		figure sampler.Figure
		what   string
	}{{sampler.FigureStates, "shares of time"}, {sampler.FigureWaits, "waits"}, {sampler.FigureStacks, "places to blame"}, {sampler.FigureRequests, "requests"}} {
		if why := l.Why(x.figure); why != "" {
			out = append(out, x.what+" are not told (–): "+why)
		}
	}
	return out
}

// statLacks writes which figures stat does not show because their quality is too low, and what would improve the
// quality.
func statLacks(b *strings.Builder, s *report.Stat) {
	list := LacksText(&s.Quality.Lacks)
	for _, text := range list {
		fmt.Fprintln(b, text)
	}
	if len(list) > 0 {
		fmt.Fprintln(b, moreQuality(&s.Self))
	}
}

// moreQuality returns advice on how to get the figures that stat does not show.
func moreQuality(self *report.StatSelf) string {
	if self.Lowered {
		return "they take more than ddtop may take: --overhead 10% or off"
	}
	return "they take a longer measurement, or higher rates (--rate, --lock-rate)"
}

// RateText returns how often per second ddtop read the process, and the rate that was asked for.
func RateText(r report.StatRate) string { return fmt.Sprintf("%.0f of %.0f Hz", r.Achieved, r.Asked) }
