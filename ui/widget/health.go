package widget

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/style"
)

// ExactEnded says in a sentence why exact mode ended itself.
func ExactEnded(s *sampler.ExactStatus) string {
	if s.Wrong {
		return "exact mode ended, and what it told is not to be trusted: " + s.Ended
	}
	return "exact mode ended: " + s.Ended
}

// exactSegments say in the head whether exact mode is on and what it costs the process, or that it ended itself. Before a thread has come past
// a probe nothing is exact.
func exactSegments(s *sampler.ExactStatus, t *style.Theme) []segment {
	warn := canvas.Style{FG: t.Warn, Attr: canvas.Bold}
	switch {
	case s.On && s.Lost > 0:
		return []segment{{fmt.Sprintf("● exact %s, %s lost", units.FinePercent(s.CostShare), units.Count(int64(s.Lost))), warn}}
	case s.On && s.Hits == 0:
		return []segment{{"○ exact: no hit yet", canvas.Style{FG: t.Dim}}}
	case s.On:
		return []segment{{"● exact " + units.FinePercent(s.CostShare), canvas.Style{FG: t.Accent, Attr: canvas.Bold}}}
	case s.Ended != "":
		return []segment{{"exact ended", warn}}
	}
	return nil
}

// exactHelp says in the help how exact mode is doing.
func exactHelp(s *sampler.ExactStatus, p *sampler.Process) []scene.Binding {
	counts := fmt.Sprintf("%s hits of its breakpoints told %s changes of the GVL, %s were lost", units.Count(int64(s.Hits)), units.Count(int64(s.Changes)), units.Count(int64(s.Lost)))
	switch {
	case s.On:
		return []scene.Binding{{Show: cmp.Or(units.FinePercent(s.CostShare), "–"), Help: "of the process's own CPU time is what exact mode costs it, by estimate, since " +
			p.WallTime(s.SinceNS).Format("15:04:05") + " (E ends it): " + counts}}
	case s.Ended != "":
		return []scene.Binding{{Show: "exact", Help: ExactEnded(s) + "; " + counts}}
	}
	return nil
}

// ReadsHelp says in the help how sampling and exact mode are doing.
func ReadsHelp(sc *scene.Scene) scene.KeyMap {
	k := sc.Figures.ReadsHelp(&sc.Process)
	k.Bindings = append(k.Bindings, exactHelp(&sc.Exact, &sc.Process)...)
	k.Bindings = append(k.Bindings, switchHelp(&sc.Switches, &sc.Process)...)
	return k
}

// segment is a piece of the head line.
type segment struct {
	text  string
	style canvas.Style
}

// health lists how the sampling does, the more important first.
func (h *Head) health(t *style.Theme) []segment {
	f := h.Figures
	live := segment{"● LIVE", canvas.Style{FG: t.Good, Attr: canvas.Bold}}
	if h.Replay || h.State.Done {
		live = segment{"▶ REPLAY", canvas.Style{FG: t.Accent, Attr: canvas.Bold}}
		if !h.Replay {
			live.text = "■ STOPPED"
		}
	}
	if h.Loaded < 1 {
		live.text = "▶ REPLAY reading " + style.Bar(h.Loaded, PlayedColumns) + " " + units.Percent(h.Loaded)
	}
	window := style.AxisTime(h.WindowNS)
	if h.SpanNS < h.WindowNS*9/10 {
		known := "<1s" // the first pictures come before there is a second to tell of
		if s := h.SpanNS / int64(time.Second); s > 0 {
			known = style.AxisTime(s * int64(time.Second))
		}
		window = known + " of " + window
	}
	out := []segment{live}
	if f.Halted != nil {
		out = append(out, segment{"■ PROCESS " + strings.ToUpper(f.Halted.Word), canvas.Style{FG: t.Crit, Attr: canvas.Bold}})
	}
	if h.Recording {
		out = append(out, segment{"● REC", canvas.Style{FG: t.Crit, Attr: canvas.Bold}})
	}
	out = append(append(out, exactSegments(&h.Exact, t)...), switchSegments(&h.Switches, t)...)
	out = append(out, segment{window, t.Plain()})
	if f.SelfKnown || f.SelfShort {
		self := segment{fmt.Sprintf("ddtop %.1f %%", f.SelfCPU*100), t.Dimmed()}
		if most := f.MayTake(&h.Process); most > 0 {
			self.text = fmt.Sprintf("ddtop %.1f of %s", f.SelfCPU*100, scene.MostText(most))
		}
		if !f.SelfKnown {
			self.text = "ddtop: too short to tell"
		}
		if words := f.Priority.Words(); words != "" {
			self.text += ", " + words
			if f.Priority != sampler.PriorityRealTime {
				self.style = canvas.Style{FG: t.Warn}
			}
		}
		out = append(out, self)
	}
	if f.LockHz == 0 {
		out = append(out, segment{"starting", t.Dimmed()})
	}
	if h.Process.Pauses && f.PauseNS > 0 {
		out = append(out, segment{fmt.Sprintf("stops it %.1f %% (%s each)", f.PauseShare*100, units.Duration(f.PauseNS)), canvas.Style{FG: t.Warn}})
	}
	// How often it reads is in the help; what is missing is said here.
	warn := func(text string) { out = append(out, segment{text, canvas.Style{FG: t.Warn}}) }
	if lost := f.Lost(); lost >= scene.ManyPartial {
		warn(units.FinePercent(lost) + " of the stacks cut short")
	}
	if f.Dropped > 0 {
		warn("dropped " + units.Count(int64(f.Dropped)))
	}
	if f.LeftOut > 0 {
		warn("names left out " + units.Count(int64(f.LeftOut)))
	}
	if f.MissesWaits() && !h.Whole && !h.Exact.On { // of what happens now none is
		out = append(out, segment{"waits under " + units.Duration(int64(1e9/f.LockHz)) + " can be missed", t.Dimmed()})
	}
	return out
}

// switchSegments say in the head that thread switches are followed, or that they are not although that was asked for.
func switchSegments(s *sampler.SwitchStatus, t *style.Theme) []segment {
	warn := canvas.Style{FG: t.Warn, Attr: canvas.Bold}
	switch {
	case s.On && s.Lost > 0:
		return []segment{{fmt.Sprintf("● switches, %s lost", units.Count(int64(s.Lost))), warn}}
	case s.On:
		return []segment{{"● switches", canvas.Style{FG: t.Accent, Attr: canvas.Bold}}}
	case s.Wanted && s.Ended != "":
		return []segment{{"polling", warn}}
	}
	return nil
}

// switchHelp says in the help how following by thread switches is doing.
func switchHelp(s *sampler.SwitchStatus, p *sampler.Process) []scene.Binding {
	switch {
	case s.On:
		return []scene.Binding{{Show: "switches", Help: fmt.Sprintf("times are exact, by %s records of thread switches since %s; %s had no room, %s words of memory could not be read",
			units.Count(int64(s.Records)), p.WallTime(s.SinceNS).Format("15:04:05"), units.Count(int64(s.Lost)), units.Count(int64(s.Failed)))}}
	case s.Wanted && s.Ended != "":
		return []scene.Binding{{Show: "polling", Help: "thread switches are not followed: " + s.Ended}}
	}
	return nil
}
