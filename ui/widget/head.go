package widget

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// Head is the content of the screen's first line: the target and the state of sampling. If the picture is not live, the
// line is a banner that says so.
type Head struct {
	Process sampler.Process
	State   store.SourceState
	// Live is false while the picture is frozen at the moment AtNS. BehindNS is how much earlier AtNS is than the
	// newest sample.
	Live             bool
	AtNS, BehindNS   int64
	NowNS            int64 // time of the newest sample
	WindowNS, SpanNS int64 // the requested time span, and how much of it has samples
	Replay           bool
	More             time.Duration // how long ddtop may still exceed its usual cost; zero if it may not
	Recording        bool
	// Playing says whether the history is being played, and Speed how fast. Played is the position in the history, from
	// 0 to 1. Loaded is how much of the recording has been read, from 0 to 1.
	Playing        bool
	Speed          float64
	Played, Loaded float64
	// StepNS is how far the keys [ and ] move the moment on the screen, in ns.
	StepNS  int64
	Figures *scene.Figures
	Exact   sampler.ExactStatus
	// Switches says whether ddtop follows the process by the kernel's records of thread switches, and how well this
	// works.
	Switches sampler.SwitchStatus
	// Number and Of are for a screen with several processes: "process 3 of 8". If there is only one process, Of is
	// zero. Whole is true if the first line is about all processes together.
	Number, Of int
	Whole      bool
	Programs   string // the names of all programs, if Whole is true
}

func (h *Head) Draw(a canvas.Area, t *style.Theme) {
	switch {
	case !h.Live:
		h.drawFrozen(a, t)
	case h.State.Err != nil:
		h.banner(a, t, "✖ "+h.State.Err.Error(), "what was measured stays   q quit", t.Crit)
	case h.State.Ended && !h.Replay:
		h.banner(a, t, "■ "+h.EndText(), "everything stays to look at   s save   [ ] time   q quit", t.Warn)
	case h.State.Silent > 0:
		h.banner(a, t, fmt.Sprintf("✖ no answer for %d s: a page of its memory does not come", int(h.State.Silent.Seconds())),
			"what was measured stays   q quit", t.Crit)
	case h.State.FailingNS > 0:
		h.banner(a, t, fmt.Sprintf("✖ not read since %s: %s", h.Process.WallTime(h.State.FailingNS).Format("15:04:05"), h.State.Failure),
			"ddtop goes on trying   what was measured stays   q quit", t.Crit)
	default:
		h.drawLive(a, t)
	}
}

// EndText returns a text that says how and when the target ended: "exited 14:05:01 (status 137)".
func (h *Head) EndText() string {
	e := h.State.End
	s := e.Reason
	if s == "" {
		s = "ended"
	}
	if e.AtNS != 0 {
		s += " " + h.Process.WallTime(e.AtNS).Format("15:04:05")
	}
	if e.ExitKnown {
		s += fmt.Sprintf(" (status %d%s)", e.ExitCode, signalWord(e.ExitCode))
	}
	return s
}

// signalWord returns the name of the signal that ended a process with the exit code 128+n: ": killed".
func signalWord(code int) string {
	const base, signals = 128, 64
	if code <= base || code > base+signals {
		return ""
	}
	return ": " + syscall.Signal(code-base).String()
}

func (h *Head) who() string {
	switch {
	case h.Whole:
		return h.Process.Name()
	case h.Of > 0:
		return fmt.Sprintf("%s  pid %d  %s", h.Process.Name(), h.Process.PID, h.which())
	}
	return fmt.Sprintf("%s  pid %d", h.Process.Name(), h.Process.PID)
}

// which returns a text that says which of several processes is shown.
func (h *Head) which() string { return fmt.Sprintf("process %d of %d", h.Number, h.Of) }

func (h *Head) drawFrozen(a canvas.Area, t *style.Theme) {
	behind := "the newest"
	if h.BehindNS > 0 {
		behind = "–" + units.Duration(h.BehindNS)
	}
	text := fmt.Sprintf("❄ FROZEN at %s  (%s)", h.Process.WallTime(h.AtNS).Format("15:04:05.000"), behind)
	if h.Playing {
		text = fmt.Sprintf("▶ PLAYING ×%g  %s  (%s)", h.Speed, h.Process.WallTime(h.AtNS).Format("15:04:05.000"), behind)
	}
	barX := 0
	if h.Playing || h.Replay && a.W >= spaciousWidth {
		text += "  "
		barX = 1 + canvas.Width(text)
		text += style.Bar(h.Played, PlayedColumns)
	}
	switch {
	case h.State.Ended && !h.Replay:
		text += "  ■ " + h.EndText()
	case h.State.Err != nil:
		text += "  ✖ sampling failed"
	case h.State.FailingNS > 0:
		text += "  ✖ not read since " + h.Process.WallTime(h.State.FailingNS).Format("15:04:05")
	case h.Replay || h.State.Done:
		text += "  recording"
	default:
		text += "  sampling goes on"
	}
	h.banner(a, t, text, "[ ] "+style.AxisTime(h.StepNS)+"  { } range  space live", t.Accent)
	if barX > 0 { // draw the bar again without reverse video: in reverse video the played part would look empty
		a.Put(barX, 0, style.Bar(h.Played, PlayedColumns), canvas.Style{FG: t.Accent, BG: t.Background})
	}
}

// banner fills the row with a text in reverse video. It warns the user, who could otherwise take an old picture for a
// live one.
func (h *Head) banner(a canvas.Area, t *style.Theme, text, right string, c canvas.Color) {
	st := canvas.Style{FG: c, BG: t.Background, Attr: canvas.Bold | canvas.Reverse}
	a.Fill(' ', st)
	x := a.Put(1, 0, canvas.Cut(text, a.W-2), st)
	texts := []string{right + "    " + h.who(), h.who(), h.Process.Name()}
	// with several processes, the PID, which is in the text of h.who, is more important than the parameter right
	if h.Of == 0 {
		texts = slices.Insert(texts, 1, right+"    "+h.Process.Name())
	}
	for _, s := range texts {
		if w := canvas.Width(s); x+3+w <= a.W-1 {
			a.Put(a.W-1-w, 0, s, st)
			return
		}
	}
}

func (h *Head) drawLive(a canvas.Area, t *style.Theme) {
	p := &h.Process
	ruby := "ruby " + p.RubyVersion
	if p.JIT != "" {
		ruby += " +" + p.JIT
	}
	right := h.health(t)
	rightW := 1
	for _, s := range right {
		rightW += canvas.Width(s.text) + 2
	}
	for h.Whole && len(right) > 1 && canvas.Width(p.Name())+3+rightW > a.W {
		rightW -= canvas.Width(right[len(right)-1].text) + 2
		right = right[:len(right)-1]
	}
	x := a.Put(1, 0, canvas.Cut(p.Name(), max(a.W-rightW-2, 8)), t.Bold())
	left := []string{fmt.Sprintf("pid %d", p.PID), ruby}
	switch {
	case h.Whole:
		left, ruby = []string{h.Programs}, ""
	case h.Of > 0:
		left = slices.Insert(left, 1, h.which())
	}
	if a.W >= scene.WideWidth && !p.StartedAt.IsZero() && h.NowNS != 0 && !h.Whole {
		left = append(left, "up "+units.LongDuration(p.WallTime(h.NowNS).Sub(p.StartedAt)))
	}
	if p.LayoutNote != "" && !h.Whole {
		left = append(left, p.LayoutNote)
	}
	// The target is on the left, and the state of sampling on the right. If there is too little room for both, the last
	// parts of both are left out.
	least := 2 + canvas.Width(left[0]) + 2 + canvas.Width(ruby)
	if h.Whole { // the table has the names of the programs
		least = 0
	}
	for len(right) > 1 && x+least+rightW > a.W {
		rightW -= canvas.Width(right[len(right)-1].text) + 2
		right = right[:len(right)-1]
	}
	for _, s := range left {
		if x+2+canvas.Width(s)+rightW <= a.W {
			x = a.Put(x+2, 0, s, t.Dimmed())
		}
	}
	x = a.W - rightW
	for _, s := range right {
		x = a.Put(x+2, 0, s.text, s.style)
	}
}

// spaciousWidth is the least width of a screen on which the banner also shows the position in a recording that is not
// being played.
const spaciousWidth = 140

// PlayedColumns is the width of a recording's progress bars, in columns.
const PlayedColumns = 12

// ExactEnded returns a sentence that says why exact mode ended although the user did not switch it off.
func ExactEnded(s *sampler.ExactStatus) string {
	if s.Wrong {
		return "exact mode ended, and what it told is not to be trusted: " + s.Ended
	}
	return "exact mode ended: " + s.Ended
}

// exactSegments returns texts for the first line of the screen. They say whether exact mode is on, and what it costs
// the process. After exact mode was switched on, figures become exact when the first thread hits a probe. Until then, a
// text says that there is no hit yet. If exact mode ended although the user did not switch it off, a text says so.
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

// exactHelp returns the lines of the help that say what exact mode costs, and what it has recorded.
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

// ReadsHelp returns the part of the help with figures about sampling, exact mode and thread switches.
func ReadsHelp(sc *scene.Scene) scene.KeyMap {
	k := sc.Figures.ReadsHelp(&sc.Process)
	k.Bindings = append(k.Bindings, exactHelp(&sc.Exact, &sc.Process)...)
	k.Bindings = append(k.Bindings, switchHelp(&sc.Switches, &sc.Process)...)
	return k
}

// segment is one text in the first line of the screen, with its style.
type segment struct {
	text  string
	style canvas.Style
}

// health returns the texts that say how well the sampling works. The most important text comes first.
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
		known := "<1s" // less than a second has passed
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
			if f.Extended {
				self.text += " for quality"
			}
		}
		if h.More > 0 { // show the remaining time beside the cost
			self.text = fmt.Sprintf("ddtop %.1f %%, exact may cost %s", f.SelfCPU*100, scene.MostText(sampler.MoreExactCost))
			if limit := h.Process.Overhead; limit > 0 && limit < sampler.MoreShare {
				self.text = fmt.Sprintf("ddtop %.1f of %s", f.SelfCPU*100, scene.MostText(sampler.MoreShare))
			}
			self.text += fmt.Sprintf(" for %.0f s", math.Ceil(h.More.Seconds()))
			self.style = canvas.Style{FG: t.Accent, Attr: canvas.Bold}
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
	// The first line of the screen says only that something is missing. The help says how much is missing, and why.
	warn := func(text string) { out = append(out, segment{text, canvas.Style{FG: t.Warn}}) }
	switch { // the help has the details and the reasons
	case h.Whole || h.Replay:
	case !f.Enough(sampler.FigureStates):
		warn("too few samples for shares")
	case !f.Enough(sampler.FigureWaits):
		warn("too few samples for waits")
	}
	if lost := f.Lost(); lost >= scene.ManyPartial {
		warn(units.FinePercent(lost) + " of stacks incomplete")
	}
	if f.Dropped > 0 {
		warn("dropped " + units.Count(int64(f.Dropped)))
	}
	if f.LeftOut > 0 {
		warn("names left out " + units.Count(int64(f.LeftOut)))
	}
	if f.MissesWaits() && !h.Whole && !h.followed() {
		out = append(out, segment{"waits under " + units.Duration(int64(1e9/f.LockHz)) + " can be missed", t.Dimmed()})
	}
	return out
}

// followed reports whether ddtop sees every wait for the GVL now, even if it takes few samples.
func (h *Head) followed() bool {
	return h.Exact.On || h.Switches.On && h.Switches.Kind == "switches" && h.Switches.Lost == 0
}

// switchSegments returns texts for the first line of the screen. They say that ddtop uses the kernel's records of
// thread switches. If ddtop tried this but failed, the text is "polling", because ddtop then only takes samples.
func switchSegments(s *sampler.SwitchStatus, t *style.Theme) []segment {
	warn := canvas.Style{FG: t.Warn, Attr: canvas.Bold}
	switch {
	case s.On && s.Lost > 0:
		return []segment{{fmt.Sprintf("● %s, %s lost", s.Kind, units.Count(int64(s.Lost))), warn}}
	case s.On:
		return []segment{{"● " + s.Kind, canvas.Style{FG: t.Accent, Attr: canvas.Bold}}}
	case s.Wanted && s.Ended != "":
		return []segment{{"polling", warn}}
	case s.Auto && s.Ended != "":
		return []segment{{"polling", canvas.Style{FG: t.Dim}}}
	}
	return nil
}

// switchHelp returns the line of the help about the kernel's records of thread switches. It has figures about these
// records, or says why ddtop does not use them.
func switchHelp(s *sampler.SwitchStatus, p *sampler.Process) []scene.Binding {
	switch {
	case s.On && s.Kind == "moved":
		return []scene.Binding{{Show: s.Kind, Help: fmt.Sprintf("the kernel says when threads get and lose a CPU, %s records since %s; memory says what they do; %s had no room",
			units.Count(int64(s.Records)), p.WallTime(s.SinceNS).Format("15:04:05"), units.Count(int64(s.Lost)))}}
	case s.On:
		return []scene.Binding{{Show: s.Kind, Help: fmt.Sprintf("times are exact, by %s records of thread switches since %s; %s had no room, %s words of memory could not be read",
			units.Count(int64(s.Records)), p.WallTime(s.SinceNS).Format("15:04:05"), units.Count(int64(s.Lost)), units.Count(int64(s.Failed)))}}
	case (s.Wanted || s.Auto) && s.Ended != "":
		return []scene.Binding{{Show: "polling", Help: "threads are not followed: " + s.Ended}}
	}
	return nil
}
