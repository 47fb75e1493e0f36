package ui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// segment is a piece of the head line.
type segment struct {
	text  string
	style canvas.Style
}

// health lists how the sampling does, the more important first.
func (h *headView) health(t *style.Theme) []segment {
	f := h.figures
	live := segment{"● LIVE", canvas.Style{FG: t.Good, Attr: canvas.Bold}}
	if h.replay || h.state.Done {
		live = segment{"▶ REPLAY", canvas.Style{FG: t.Accent, Attr: canvas.Bold}}
		if !h.replay {
			live.text = "■ STOPPED"
		}
	}
	if h.loaded < 1 {
		live.text = "▶ REPLAY reading " + style.Bar(h.loaded, playedColumns) + " " + units.Percent(h.loaded)
	}
	window := style.AxisTime(h.windowNS)
	if h.spanNS < h.windowNS*9/10 {
		known := "<1s" // the first pictures come before there is a second to tell of
		if s := h.spanNS / int64(time.Second); s > 0 {
			known = style.AxisTime(s * int64(time.Second))
		}
		window = known + " of " + window
	}
	out := []segment{live}
	if f.halted != nil {
		out = append(out, segment{"■ PROCESS " + strings.ToUpper(f.halted.word), canvas.Style{FG: t.Crit, Attr: canvas.Bold}})
	}
	if h.recording {
		out = append(out, segment{"● REC", canvas.Style{FG: t.Crit, Attr: canvas.Bold}})
	}
	out = append(append(out, exactSegments(&h.exact, t)...), switchSegments(&h.switches, t)...)
	out = append(out, segment{window, t.Plain()})
	if f.selfKnown || f.selfShort {
		self := segment{fmt.Sprintf("ddtop %.1f %%", f.selfCPU*100), t.Dimmed()}
		if most := f.mayTake(&h.process); most > 0 {
			self.text = fmt.Sprintf("ddtop %.1f of %s", f.selfCPU*100, mostText(most))
		}
		if !f.selfKnown {
			self.text = "ddtop: too short to tell"
		}
		if words := f.priority.Words(); words != "" {
			self.text += ", " + words
			if f.priority != sampler.PriorityRealTime {
				self.style = canvas.Style{FG: t.Warn}
			}
		}
		out = append(out, self)
	}
	if f.lockHz == 0 {
		out = append(out, segment{"starting", t.Dimmed()})
	}
	if h.process.Pauses && f.pauseNS > 0 {
		out = append(out, segment{fmt.Sprintf("stops it %.1f %% (%s each)", f.pauseShare*100, units.Duration(f.pauseNS)), canvas.Style{FG: t.Warn}})
	}
	// How often it reads is in the help; what is missing is said here.
	warn := func(text string) { out = append(out, segment{text, canvas.Style{FG: t.Warn}}) }
	if lost := f.lost(); lost >= manyPartial {
		warn(units.FinePercent(lost) + " of the stacks cut short")
	}
	if f.dropped > 0 {
		warn("dropped " + units.Count(int64(f.dropped)))
	}
	if f.leftOut > 0 {
		warn("names left out " + units.Count(int64(f.leftOut)))
	}
	if f.missesWaits() && !h.whole && !h.exact.On { // of what happens now none is
		out = append(out, segment{"waits under " + units.Duration(int64(1e9/f.lockHz)) + " can be missed", t.Dimmed()})
	}
	return out
}

// missesWaits reports whether short waits are missed because it reads more rarely than was asked for.
func (f *figures) missesWaits() bool { return f.lowered && !f.exact && f.lockHz > 0 }

// lost is the share of the stacks read that are not there in full.
func (f *figures) lost() float64 { return style.Share(int64(f.stacks.Lost), int64(f.stacks.Read)) }

// mayTake is the share of a CPU that ddtop may take, at the end of the time shown; 0: there is no limit.
func (f *figures) mayTake(p *sampler.Process) float64 {
	if f.halved {
		return p.Overhead / 2
	}
	return p.Overhead
}

// mostText writes a limit: 3 %, 1.5 %.
func mostText(share float64) string { return strconv.FormatFloat(share*100, 'g', 4, 64) + " %" }

// manyPartial is the share of the stacks read from on which it is marked that they are not there in full.
const manyPartial = 0.05

// slower says why it reads less often than was asked for; "" where it does not.
func (f *figures) slower(p *sampler.Process) string {
	asked := fmt.Sprintf("; asked for were %s and %s", style.Rate(p.LockRate), style.Rate(p.StackRate))
	switch {
	case f.slow:
		return asked + ": the process is idle"
	case f.exact && f.stackHz >= 0.8*p.StackRate:
		return "; in exact mode it reads who holds the GVL no oftener than stacks"
	case f.lockHz < 0.8*p.LockRate || f.stackHz < 0.8*p.StackRate:
		return asked
	}
	return ""
}

// readsHelp says what happened to reads, in the help: what was corrected by reading again is not a loss, and stays out of the
// header.
func (f *figures) readsHelp(p *sampler.Process) keyMap {
	n := func(v uint64) string { return units.Count(int64(v)) }
	r := &f.reads
	keys := keyMap{title: "sampling since the attach", bindings: []binding{
		{show: style.Rate(f.lockHz), help: "reads a second of who holds the GVL and who waits, " + style.Rate(f.stackHz) + " of all stacks, in the time shown" + f.slower(p)},
		{show: units.FinePercent(f.lost()), help: "of the stacks in the time shown were not read in full (partial)"},
		{show: n(r.Ticks), help: "reads of the scheduler, " + n(r.StackTicks) + " of them with all stacks; " + n(r.Late) + " left out because ddtop was late"},
		{show: n(r.Torn), help: "reads that changed under way (torn): made again " + n(r.Retried) + " times, which is not a loss"},
		{show: n(r.Partial), help: "stacks kept in part, without their innermost frames; " + n(r.Failed) + " reads failed; " + n(f.dropped) + " samples dropped"},
		{show: n(f.leftOut), help: "frames, stacks, threads and peers left out: their names take too much memory"},
	}}
	if most := f.mayTake(p); most > 0 {
		help := "of a CPU is what ddtop may take (--overhead)"
		if f.halved {
			help += ", half of " + mostText(p.Overhead) + " since no CPU is free"
		}
		if f.missesWaits() {
			help += fmt.Sprintf("; it reads %s times a second for it, stacks %s: waits under %s can be missed",
				style.Rate(f.lockHz), style.Rate(f.stackHz), units.Duration(int64(1e9/f.lockHz)))
		}
		keys.bindings = append(keys.bindings, binding{show: mostText(most), help: help})
	}
	return keys
}
