package widget

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// Head draws who the target is and how the sampling does, or the banner that says that the picture is not live.
type Head struct {
	Process sampler.Process
	State   store.SourceState
	// Live is false while the picture is frozen at atNS; behindNS is how far that is from the newest sample.
	Live             bool
	AtNS, BehindNS   int64
	NowNS            int64 // time of the newest sample
	WindowNS, SpanNS int64 // the stretch asked for and the part of it there is
	Replay           bool
	Recording        bool
	// Playing at a speed; played is where in the history the moment lies, loaded how much of a recording is read: shares.
	Playing        bool
	Speed          float64
	Played, Loaded float64
	// StepNS is how far [ and ] move.
	StepNS  int64
	Figures *scene.Figures
	Exact   sampler.ExactStatus
	// Switches is how following by thread switches is doing.
	Switches sampler.SwitchStatus
	// Number and of say which of several processes it is; of is 0 where there is one. whole: it is about all of them.
	Number, Of int
	Whole      bool
	Programs   string // the names of all, when whole
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

// EndText says how and when the target ended: "exited 14:05:01 (status 137)".
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

// signalWord names the signal that an exit code of 128+n stands for: ": killed".
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
		return h.Process.Title
	case h.Of > 0:
		return fmt.Sprintf("%s  pid %d  %s", h.Process.Title, h.Process.PID, h.which())
	}
	return fmt.Sprintf("%s  pid %d", h.Process.Title, h.Process.PID)
}

// which says which process of several it is.
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
	if barX > 0 { // in reverse video what is played would look empty
		a.Put(barX, 0, style.Bar(h.Played, PlayedColumns), canvas.Style{FG: t.Accent, BG: t.Background})
	}
}

// banner fills the row in reverse video: no one may take an old picture for a live one.
func (h *Head) banner(a canvas.Area, t *style.Theme, text, right string, c canvas.Color) {
	st := canvas.Style{FG: c, BG: t.Background, Attr: canvas.Bold | canvas.Reverse}
	a.Fill(' ', st)
	x := a.Put(1, 0, canvas.Cut(text, a.W-2), st)
	texts := []string{right + "    " + h.who(), h.who(), h.Process.Title}
	if h.Of == 0 { // of several processes it matters more which it is
		texts = slices.Insert(texts, 1, right+"    "+h.Process.Title)
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
	for h.Whole && len(right) > 1 && canvas.Width(p.Title)+3+rightW > a.W {
		rightW -= canvas.Width(right[len(right)-1].text) + 2
		right = right[:len(right)-1]
	}
	x := a.Put(1, 0, canvas.Cut(p.Title, max(a.W-rightW-2, 8)), t.Bold())
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
	// The health on the right gives way from its end, the description of the target from its own.
	least := 2 + canvas.Width(left[0]) + 2 + canvas.Width(ruby)
	if h.Whole { // the names of programs stand in the table
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

// spaciousWidth is from where on the banner has room for the place in a recording that is not being played.
const spaciousWidth = 140

// PlayedColumns is the length of the bars of a recording.
const PlayedColumns = 12
