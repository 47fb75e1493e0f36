package scene

import (
	"fmt"
	"strconv"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/findings"
	"github.com/ddtop/ddtop/gvl/timeline"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// Figures are the numbers in the first lines of the screen. They describe the time span on the screen.
type Figures struct {
	Held, Waiting float64 // share of the time in which the busiest ractor's GVL was held; mean number of waiters
	// WaitLengths has quantiles (store.WaitShares) of the lengths of the waits for the GVL. Waits is how many waits
	// there were.
	WaitLengths    [len(store.WaitShares)]gvl.Bounded
	Waits          int64
	CPU, Throttled float64
	GC             float64
	Minor, Major   uint64
	GCKnown        bool
	RSS            int64
	// Backlog is how many connections and requests waited for a thread of the process, at the end of the time on the
	// screen. BacklogKnown is true if this number is known.
	Backlog         int64
	BacklogKnown    bool
	StackHz, LockHz float64
	SelfCPU         float64
	SelfKnown       bool
	SelfShort       bool // SelfCPU is not shown, because the measured time is too short
	Priority        sampler.Priority
	// Halved is true if ddtop's budget was halved, and lowered is true if its rates were lowered. Both describe the end
	// of the time shown.
	Halved, lowered bool
	Extended        bool // ddtop takes more than its budget, because otherwise the figures would be too inexact
	// lacks has, for each kind of figure, the reason why it is not shown: its quality is too low. The reason is "" if
	// the kind is shown.
	lacks   [sampler.NumFigures]string
	exact   bool             // every change of the GVL is known, for at least 99 % of the time
	reads   sampler.Reads    // since ddtop attached
	stacks  store.StackReads // in the time shown
	Dropped uint64
	LeftOut uint64 // number of names that were left out
	slow    bool
	// Halted is what stopped all threads of the process from outside, such as SIGSTOP, at the end of the time on the
	// screen. It is nil if nothing stopped them.
	Halted     *Halt
	PauseShare float64 // share of the time in which ddtop paused the process
	PauseNS    int64   // mean length of ddtop's pauses of the process
	HeldSpark  []float64
	WaitSpark  []float64
	CPUSpark   []float64
	GCSpark    []float64
	RSSSpark   []float64
}

// sparkColumns is the width of each sparkline, a small curve in the first lines of the screen.
const sparkColumns = 8

// Load reads the figures between two times.
func (f *Figures) Load(r *store.Reading, fromNS, toNS int64) {
	*f = Figures{Dropped: r.Dropped, LeftOut: r.LeftOut}
	cells := r.Timeline.Process(fromNS, toNS, sparkColumns)
	var sum timeline.ProcCell
	for _, c := range cells {
		sum.SpanNS += c.SpanNS
		sum.SampledNS += c.SampledNS
		sum.WaitNS += c.WaitNS
		sum.GCNS += c.GCNS
		sum.CPUNS += c.CPUNS
		sum.ThrottledNS += c.ThrottledNS
		unknown := c.SampledNS == 0
		f.WaitSpark = append(f.WaitSpark, style.ValueOr(unknown, c.Waiters()))
		f.CPUSpark = append(f.CPUSpark, style.ValueOr(unknown, style.Share(c.CPUNS, c.SampledNS)))
		f.GCSpark = append(f.GCSpark, style.ValueOr(unknown, c.GC()))
		f.RSSSpark = append(f.RSSSpark, style.ValueOr(c.RSSBytes == 0, float64(c.RSSBytes)))
		if c.RSSBytes != 0 {
			f.RSS = c.RSSBytes
		}
	}
	f.Waiting, f.GC = sum.Waiters(), sum.GC()
	f.CPU, f.Throttled = style.Share(sum.CPUNS, sum.SampledNS), style.Share(sum.ThrottledNS, sum.SampledNS)
	f.Held, f.HeldSpark = Busiest(r, fromNS, toNS, sparkColumns)
	f.loadMarks(r, fromNS, toNS)
	var open []gvl.Wait
	for i := range r.States {
		if s := &r.States[i]; s.State == gvl.Waiting && toNS >= r.LastNS {
			open = append(open, s.Wait())
		}
	}
	f.WaitLengths, f.Waits = r.Waits.Lengths(fromNS, toNS, open)
}

// Busiest returns in which share of a time span the GVL was held. spark divides the time span into columns, and has the
// share for each column. If there are several ractors, Busiest uses the ractor whose GVL was held most.
func Busiest(r *store.Reading, fromNS, toNS int64, columns int) (most float64, spark []float64) {
	for _, id := range r.Timeline.Ractors() {
		cells := r.Timeline.Owners(id, fromNS, toNS, columns)
		var held, sampled int64
		shares := make([]float64, 0, len(cells))
		for _, c := range cells {
			held += c.HeldNS
			sampled += c.SampledNS
			shares = append(shares, style.ValueOr(c.SampledNS == 0, style.Share(c.HeldNS, c.SampledNS)))
		}
		if s := style.Share(held, sampled); s >= most {
			most, spark = s, shares
		}
	}
	return most, spark
}

func (f *Figures) loadMarks(r *store.Reading, fromNS, toNS int64) {
	a, b, ok := r.Marks.Span(fromNS, toNS)
	if b == nil {
		return
	}
	f.reads, f.slow, f.Halted = b.Reads, b.Slow, HaltOf(&b.Proc)
	f.GCKnown = b.GC.Valid
	f.Backlog, f.BacklogKnown = b.Queues.Backlog()
	if f.RSS == 0 {
		f.RSS = b.Proc.RSSBytes
	}
	if !ok {
		return
	}
	sec := float64(b.TimeNS-a.TimeNS) / 1e9
	f.Minor, f.Major = b.GC.MinorCount-a.GC.MinorCount, b.GC.MajorCount-a.GC.MajorCount
	f.LockHz = float64(b.Reads.Ticks-a.Reads.Ticks) / sec
	f.StackHz = float64(b.Reads.StackTicks-a.Reads.StackTicks) / sec
	own, span := b.Meters.Self.Since(&a.Meters.Self)
	f.SelfCPU, f.SelfKnown, f.SelfShort = style.Share(own, span), span > 0, span == 0 && b.Meters.Self.Known()
	f.exact = r.Exact.NearlyAll(fromNS, toNS)
	f.Priority, f.Halved, f.lowered, f.Extended = b.Self.Priority, b.Self.Halved, b.Self.Lowered, b.Self.Extended
	q := b.Quality.Since(&a.Quality)
	for i := range f.lacks {
		f.lacks[i] = q.Lacks(sampler.Figure(i))
	}
	if n := b.Reads.Pauses - a.Reads.Pauses; n > 0 {
		paused := int64(b.Reads.PausedNS - a.Reads.PausedNS)
		f.PauseShare, f.PauseNS = style.Share(paused, b.TimeNS-a.TimeNS), paused/int64(n)
	}
	f.stacks = store.StackReads{Read: b.Stacks.Read - a.Stacks.Read, Lost: b.Stacks.Lost - a.Stacks.Lost}
}

// Enough reports whether the quality of figures of this kind is high enough to show them.
func (f *Figures) Enough(kind sampler.Figure) bool { return f.lacks[kind] == "" }

// Why returns "–" and the reason why figures of these kinds are not shown. If several kinds are not shown, Why returns
// the reason for the first of them. It returns "" if all are shown.
func (f *Figures) Why(kinds ...sampler.Figure) string {
	for _, kind := range kinds {
		if why := f.lacks[kind]; why != "" {
			return kind.String() + " –: " + why
		}
	}
	return ""
}

// Told returns the text of a figure. If figures of this kind are too inexact to be shown, it returns – instead.
func (f *Figures) Told(kind sampler.Figure, text string) string {
	if !f.Enough(kind) {
		return "–"
	}
	return text
}

// WaitText returns the text of one quantile of the waits' lengths. The parameter of is the quantile's index in
// WaitLengths.
func (f *Figures) WaitText(of int) string {
	return f.Told(sampler.FigureWaits, store.WaitInWords(f.Waits, f.WaitLengths[of]))
}

// WaitsText returns a text that says how many waits for the GVL all threads had, and how long they were. It is "" if
// there were none.
func (f *Figures) WaitsText() string {
	if f.Waits == 0 || !f.Enough(sampler.FigureWaits) {
		return ""
	}
	return fmt.Sprintf("%s waits: p50 %s  p90 %s  p99 %s  max %s", units.Count(f.Waits), f.WaitText(store.WaitP50), f.WaitText(store.WaitP90),
		f.WaitText(store.WaitP99), f.WaitText(store.WaitMax))
}

// MissesWaits reports whether ddtop may miss short waits because it reads less often than the user asked for.
func (f *Figures) MissesWaits() bool { return f.lowered && !f.exact && f.LockHz > 0 }

// Lost returns which share of the stacks that were read is incomplete.
func (f *Figures) Lost() float64 { return style.Share(int64(f.stacks.Lost), int64(f.stacks.Read)) }

// MayTake returns the share of a CPU that ddtop was allowed to take, at the end of the time on the screen. It returns
// zero if there is no limit.
func (f *Figures) MayTake(p *sampler.Process) float64 {
	switch {
	case f.Extended && p.OverheadMost > 0:
		return p.OverheadMost
	case f.Halved:
		return p.Overhead / 2
	}
	return p.Overhead
}

// MostText returns a limit as a text in percent: 3 %, 1.5 %.
func MostText(share float64) string { return strconv.FormatFloat(share*100, 'g', 4, 64) + " %" }

// ManyPartial is a share of incomplete stacks. From this share on, the screen shows a warning.
const ManyPartial = 0.05

// slower returns a text that says why ddtop reads the process less often than the user asked for. It is "" if ddtop
// reads as often as asked for.
func (f *Figures) slower(p *sampler.Process) string {
	asked := fmt.Sprintf("; asked for were %s and %s", style.Rate(p.LockRate), style.Rate(p.StackRate))
	switch {
	case f.slow:
		return asked + ": the process is idle"
	case f.exact && f.StackHz >= 0.8*p.StackRate:
		return "; in exact mode it reads who holds the GVL no oftener than stacks"
	case f.LockHz < 0.8*p.LockRate || f.StackHz < 0.8*p.StackRate:
		return asked
	}
	return ""
}

// ReadsHelp returns the lines of the help about failed reads of the process's memory. The first lines of the screen
// mention only reads that lost data. If a second read succeeded, nothing was lost.
func (f *Figures) ReadsHelp(p *sampler.Process) KeyMap {
	n := func(v uint64) string { return units.Count(int64(v)) }
	r := &f.reads
	keys := KeyMap{Title: "sampling since the attach", Bindings: []Binding{
		{Show: style.Rate(f.LockHz), Help: "samples per second of the GVL, " + style.Rate(f.StackHz) + " of all stacks, in the time shown" + f.slower(p)},
		{Show: units.FinePercent(f.Lost()), Help: "of the stacks in the time shown are incomplete"},
		{Show: n(r.Ticks), Help: "samples of the scheduler, " + n(r.StackTicks) + " of them with all stacks. " + n(r.Late) + " were left out because ddtop was late"},
		{Show: n(r.Torn), Help: "reads changed under way (torn). They were made again " + n(r.Retried) + " times, which is not a loss"},
		{Show: n(r.Partial), Help: "stacks lack their innermost frames. " + n(r.Failed) + " reads failed; " + n(f.Dropped) + " samples dropped"},
		{Show: n(f.LeftOut), Help: "frames, stacks, threads and peers are left out, because their names take too much memory"},
	}}
	for i := range f.lacks {
		if f.lacks[i] != "" {
			keys.Bindings = append(keys.Bindings, Binding{Show: "–", Help: sampler.Figure(i).String() + " are not told: " + f.lacks[i]})
		}
	}
	if most := f.MayTake(p); most > 0 {
		help := "of a CPU is what ddtop may take (--overhead)"
		switch {
		case f.Extended:
			help += ": more than the usual " + MostText(p.Overhead) + ", since figures would have less than their least quality with that"
		case f.Halved:
			help += ", half of " + MostText(p.Overhead) + " since no CPU is free"
		}
		if f.MissesWaits() {
			help += fmt.Sprintf("; it reads %s times a second for it, stacks %s: waits under %s can be missed",
				style.Rate(f.LockHz), style.Rate(f.StackHz), units.Duration(int64(1e9/f.LockHz)))
		}
		keys.Bindings = append(keys.Bindings, Binding{Show: MostText(most), Help: help})
	}
	return keys
}

// Halt is something that stops all threads of a process from outside, such as SIGSTOP. While a process is halted, the
// finding about this is shown first, and no other rule is checked. The other rules would be wrong, because all threads
// seem to wait for whatever they did last.
type Halt struct {
	Word    string
	Finding findings.Finding
}

// HaltOf returns what has stopped all threads of a process from outside. It returns nil if nothing has.
func HaltOf(p *sampler.Proc) *Halt {
	switch {
	case p.Frozen:
		return &ProcessFrozen
	case p.Stopped:
		return &ProcessStopped
	}
	return nil
}

var (
	ProcessStopped = Halt{"stopped", findings.Finding{
		Severity: findings.SeverityCrit, Title: "The process is stopped",
		Text: "a signal (SIGSTOP, SIGTSTP) or a debugger holds all of its threads: nothing runs",
		Next: "kill -CONT lets it go on after a signal; after a debugger, its own detach",
	}}
	ProcessFrozen = Halt{"frozen", findings.Finding{
		Severity: findings.SeverityCrit, Title: "Frozen by its cgroup",
		Text: "the cgroup of the process, or a parent of it, is frozen (docker pause, systemctl freeze): nothing runs",
		Next: "docker unpause or systemctl thaw lets it go on",
	}}
)
