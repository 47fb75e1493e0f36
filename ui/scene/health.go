package scene

import (
	"fmt"
	"strconv"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/style"
)

// MissesWaits reports whether short waits are missed because it reads more rarely than was asked for.
func (f *Figures) MissesWaits() bool { return f.lowered && !f.exact && f.LockHz > 0 }

// Lost is the share of the stacks read that are not there in full.
func (f *Figures) Lost() float64 { return style.Share(int64(f.stacks.Lost), int64(f.stacks.Read)) }

// MayTake is the share of a CPU that ddtop may take, at the end of the time shown; 0: there is no limit.
func (f *Figures) MayTake(p *sampler.Process) float64 {
	if f.Halved {
		return p.Overhead / 2
	}
	return p.Overhead
}

// MostText writes a limit: 3 %, 1.5 %.
func MostText(share float64) string { return strconv.FormatFloat(share*100, 'g', 4, 64) + " %" }

// ManyPartial is the share of the stacks read from on which it is marked that they are not there in full.
const ManyPartial = 0.05

// slower says why it reads less often than was asked for; "" where it does not.
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

// ReadsHelp says what happened to reads, in the help: what was corrected by reading again is not a loss, and stays out of the
// header.
func (f *Figures) ReadsHelp(p *sampler.Process) KeyMap {
	n := func(v uint64) string { return units.Count(int64(v)) }
	r := &f.reads
	keys := KeyMap{Title: "sampling since the attach", Bindings: []Binding{
		{Show: style.Rate(f.LockHz), Help: "reads a second of who holds the GVL and who waits, " + style.Rate(f.StackHz) + " of all stacks, in the time shown" + f.slower(p)},
		{Show: units.FinePercent(f.Lost()), Help: "of the stacks in the time shown were not read in full (partial)"},
		{Show: n(r.Ticks), Help: "reads of the scheduler, " + n(r.StackTicks) + " of them with all stacks; " + n(r.Late) + " left out because ddtop was late"},
		{Show: n(r.Torn), Help: "reads that changed under way (torn): made again " + n(r.Retried) + " times, which is not a loss"},
		{Show: n(r.Partial), Help: "stacks kept in part, without their innermost frames; " + n(r.Failed) + " reads failed; " + n(f.Dropped) + " samples dropped"},
		{Show: n(f.LeftOut), Help: "frames, stacks, threads and peers left out: their names take too much memory"},
	}}
	if most := f.MayTake(p); most > 0 {
		help := "of a CPU is what ddtop may take (--overhead)"
		if f.Halved {
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
