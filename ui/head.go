package ui

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
)

// figures are the numbers of the head lines over the stretch of time that is shown.
type figures struct {
	held, waiting float64 // of the busiest ractor's GVL; all ractors' waiters
	// waitTold are the lengths that shares of the waits for the GVL don't exceed (waitShares); waits is how many there were.
	waitTold        [len(store.WaitShares)]gvl.Bounded
	waits           int64
	cpu, throttled  float64
	gc              float64
	minor, major    uint64
	gcKnown         bool
	rss             int64
	stackHz, lockHz float64
	selfCPU         float64
	selfKnown       bool
	selfShort       bool // what was measured is too short to tell it
	priority        sampler.Priority
	halved, lowered bool             // of the budget, at the end
	exact           bool             // every change of the GVL is known
	reads           sampler.Reads    // since the attach
	stacks          store.StackReads // of the time shown
	dropped         uint64
	leftOut         uint64 // names
	slow            bool
	// halted is what holds the process from outside at the end; nil: nothing does.
	halted     *halt
	pauseShare float64 // of the time
	pauseNS    int64   // their mean length
	heldSpark  []float64
	waitSpark  []float64
	cpuSpark   []float64
	gcSpark    []float64
	rssSpark   []float64
}

// sparkColumns is the number of columns of each sparkline.
const sparkColumns = 8

// load reads the figures between two times.
func (f *figures) load(r *store.Reading, fromNS, toNS int64) {
	*f = figures{dropped: r.Dropped, leftOut: r.LeftOut}
	cells := r.Timeline.Process(fromNS, toNS, sparkColumns)
	var sum gvl.ProcCell
	for _, c := range cells {
		sum.SpanNS += c.SpanNS
		sum.SampledNS += c.SampledNS
		sum.WaitNS += c.WaitNS
		sum.GCNS += c.GCNS
		sum.CPUNS += c.CPUNS
		sum.ThrottledNS += c.ThrottledNS
		unknown := c.SampledNS == 0
		f.waitSpark = append(f.waitSpark, valueOr(unknown, c.Waiters()))
		f.cpuSpark = append(f.cpuSpark, valueOr(unknown, style.Share(c.CPUNS, c.SampledNS)))
		f.gcSpark = append(f.gcSpark, valueOr(unknown, c.GC()))
		f.rssSpark = append(f.rssSpark, valueOr(c.RSSBytes == 0, float64(c.RSSBytes)))
		if c.RSSBytes != 0 {
			f.rss = c.RSSBytes
		}
	}
	f.waiting, f.gc = sum.Waiters(), sum.GC()
	f.cpu, f.throttled = style.Share(sum.CPUNS, sum.SampledNS), style.Share(sum.ThrottledNS, sum.SampledNS)
	f.loadOwners(r, fromNS, toNS)
	f.loadMarks(r, fromNS, toNS)
	var open []gvl.Wait
	for i := range r.States {
		if s := &r.States[i]; s.State == gvl.Waiting && toNS >= r.LastNS {
			open = append(open, s.Wait())
		}
	}
	f.waitTold, f.waits = r.Waits.Lengths(fromNS, toNS, open)
}

func (f *figures) loadOwners(r *store.Reading, fromNS, toNS int64) {
	for _, id := range r.Timeline.Ractors() {
		cells := r.Timeline.Owners(id, fromNS, toNS, sparkColumns)
		var held, sampled int64
		spark := make([]float64, 0, len(cells))
		for _, c := range cells {
			held += c.HeldNS
			sampled += c.SampledNS
			spark = append(spark, valueOr(c.SampledNS == 0, style.Share(c.HeldNS, c.SampledNS)))
		}
		if s := style.Share(held, sampled); s >= f.held {
			f.held, f.heldSpark = s, spark
		}
	}
}

func (f *figures) loadMarks(r *store.Reading, fromNS, toNS int64) {
	a, b, ok := r.Marks.Span(fromNS, toNS)
	if b == nil {
		return
	}
	f.reads, f.slow, f.halted = b.Reads, b.Slow, haltOf(&b.Proc)
	f.gcKnown = b.GC.Valid
	if f.rss == 0 {
		f.rss = b.Proc.RSSBytes
	}
	if !ok {
		return
	}
	sec := float64(b.TimeNS-a.TimeNS) / 1e9
	f.minor, f.major = b.GC.MinorCount-a.GC.MinorCount, b.GC.MajorCount-a.GC.MajorCount
	f.lockHz = float64(b.Reads.Ticks-a.Reads.Ticks) / sec
	f.stackHz = float64(b.Reads.StackTicks-a.Reads.StackTicks) / sec
	own, span := b.Meters.Self.Since(&a.Meters.Self)
	f.selfCPU, f.selfKnown, f.selfShort = style.Share(own, span), span > 0, span == 0 && b.Meters.Self.Known()
	f.exact = r.Exact.NearlyAll(fromNS, toNS)
	f.priority, f.halved, f.lowered = b.Self.Priority, b.Self.Halved, b.Self.Lowered
	if n := b.Reads.Pauses - a.Reads.Pauses; n > 0 {
		paused := int64(b.Reads.PausedNS - a.Reads.PausedNS)
		f.pauseShare, f.pauseNS = style.Share(paused, b.TimeNS-a.TimeNS), paused/int64(n)
	}
	f.stacks = store.StackReads{Read: b.Stacks.Read - a.Stacks.Read, Lost: b.Stacks.Lost - a.Stacks.Lost}
}

func valueOr(unknown bool, v float64) float64 {
	if unknown {
		return -1
	}
	return v
}

// headView draws who the target is and how the sampling does, or the banner that says that the picture is not live.
type headView struct {
	process sampler.Process
	state   store.SourceState
	// live is false while the picture is frozen at atNS; behindNS is how far that is from the newest sample.
	live             bool
	atNS, behindNS   int64
	nowNS            int64 // time of the newest sample
	windowNS, spanNS int64 // the stretch asked for and the part of it there is
	replay           bool
	recording        bool
	// playing at a speed; played is where in the history the moment lies, loaded how much of a recording is read: shares.
	playing        bool
	speed          float64
	played, loaded float64
	// stepNS is how far [ and ] move.
	stepNS  int64
	figures *figures
	exact   sampler.ExactStatus
	// switches is how following by thread switches is doing.
	switches sampler.SwitchStatus
	// number and of say which of several processes it is; of is 0 where there is one. whole: it is about all of them.
	number, of int
	whole      bool
	programs   string // the names of all, when whole
}

func (h *headView) draw(a canvas.Area, t *style.Theme) {
	switch {
	case !h.live:
		h.drawFrozen(a, t)
	case h.state.Err != nil:
		h.banner(a, t, "✖ "+h.state.Err.Error(), "what was measured stays   q quit", t.Crit)
	case h.state.Ended && !h.replay:
		h.banner(a, t, "■ "+h.endText(), "everything stays to look at   s save   [ ] time   q quit", t.Warn)
	case h.state.Silent > 0:
		h.banner(a, t, fmt.Sprintf("✖ no answer for %d s: a page of its memory does not come", int(h.state.Silent.Seconds())),
			"what was measured stays   q quit", t.Crit)
	case h.state.FailingNS > 0:
		h.banner(a, t, fmt.Sprintf("✖ not read since %s: %s", h.process.WallTime(h.state.FailingNS).Format("15:04:05"), h.state.Failure),
			"ddtop goes on trying   what was measured stays   q quit", t.Crit)
	default:
		h.drawLive(a, t)
	}
}

// endText says how and when the target ended: "exited 14:05:01 (status 137)".
func (h *headView) endText() string {
	e := h.state.End
	s := e.Reason
	if s == "" {
		s = "ended"
	}
	if e.AtNS != 0 {
		s += " " + h.process.WallTime(e.AtNS).Format("15:04:05")
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

func (h *headView) who() string {
	switch {
	case h.whole:
		return h.process.Title
	case h.of > 0:
		return fmt.Sprintf("%s  pid %d  %s", h.process.Title, h.process.PID, h.which())
	}
	return fmt.Sprintf("%s  pid %d", h.process.Title, h.process.PID)
}

// which says which process of several it is.
func (h *headView) which() string { return fmt.Sprintf("process %d of %d", h.number, h.of) }

func (h *headView) drawFrozen(a canvas.Area, t *style.Theme) {
	behind := "the newest"
	if h.behindNS > 0 {
		behind = "–" + units.Duration(h.behindNS)
	}
	text := fmt.Sprintf("❄ FROZEN at %s  (%s)", h.process.WallTime(h.atNS).Format("15:04:05.000"), behind)
	if h.playing {
		text = fmt.Sprintf("▶ PLAYING ×%g  %s  (%s)", h.speed, h.process.WallTime(h.atNS).Format("15:04:05.000"), behind)
	}
	barX := 0
	if h.playing || h.replay && a.W >= spaciousWidth {
		text += "  "
		barX = 1 + canvas.Width(text)
		text += style.Bar(h.played, playedColumns)
	}
	switch {
	case h.state.Ended && !h.replay:
		text += "  ■ " + h.endText()
	case h.state.Err != nil:
		text += "  ✖ sampling failed"
	case h.state.FailingNS > 0:
		text += "  ✖ not read since " + h.process.WallTime(h.state.FailingNS).Format("15:04:05")
	case h.replay || h.state.Done:
		text += "  recording"
	default:
		text += "  sampling goes on"
	}
	h.banner(a, t, text, "[ ] "+style.AxisTime(h.stepNS)+"  { } range  space live", t.Accent)
	if barX > 0 { // in reverse video what is played would look empty
		a.Put(barX, 0, style.Bar(h.played, playedColumns), canvas.Style{FG: t.Accent, BG: t.Background})
	}
}

// banner fills the row in reverse video: no one may take an old picture for a live one.
func (h *headView) banner(a canvas.Area, t *style.Theme, text, right string, c canvas.Color) {
	st := canvas.Style{FG: c, BG: t.Background, Attr: canvas.Bold | canvas.Reverse}
	a.Fill(' ', st)
	x := a.Put(1, 0, canvas.Cut(text, a.W-2), st)
	texts := []string{right + "    " + h.who(), h.who(), h.process.Title}
	if h.of == 0 { // of several processes it matters more which it is
		texts = slices.Insert(texts, 1, right+"    "+h.process.Title)
	}
	for _, s := range texts {
		if w := canvas.Width(s); x+3+w <= a.W-1 {
			a.Put(a.W-1-w, 0, s, st)
			return
		}
	}
}

func (h *headView) drawLive(a canvas.Area, t *style.Theme) {
	p := &h.process
	ruby := "ruby " + p.RubyVersion
	if p.JIT != "" {
		ruby += " +" + p.JIT
	}
	right := h.health(t)
	rightW := 1
	for _, s := range right {
		rightW += canvas.Width(s.text) + 2
	}
	for h.whole && len(right) > 1 && canvas.Width(p.Title)+3+rightW > a.W {
		rightW -= canvas.Width(right[len(right)-1].text) + 2
		right = right[:len(right)-1]
	}
	x := a.Put(1, 0, canvas.Cut(p.Title, max(a.W-rightW-2, 8)), t.Bold())
	left := []string{fmt.Sprintf("pid %d", p.PID), ruby}
	switch {
	case h.whole:
		left, ruby = []string{h.programs}, ""
	case h.of > 0:
		left = slices.Insert(left, 1, h.which())
	}
	if a.W >= wideWidth && !p.StartedAt.IsZero() && h.nowNS != 0 && !h.whole {
		left = append(left, "up "+units.LongDuration(p.WallTime(h.nowNS).Sub(p.StartedAt)))
	}
	if p.LayoutNote != "" && !h.whole {
		left = append(left, p.LayoutNote)
	}
	// The health on the right gives way from its end, the description of the target from its own.
	least := 2 + canvas.Width(left[0]) + 2 + canvas.Width(ruby)
	if h.whole { // the names of programs stand in the table
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

// playedColumns is the length of the bars of a recording.
const playedColumns = 12
