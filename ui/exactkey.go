package ui

import (
	"cmp"
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/style"
)

// ExactSwitch switches exact mode (docs/exact.md) of the process that is shown on and off. The screen calls Exact and EndExact in the
// background, one at a time, and ExactStatus at each picture: that one must not wait for the others.
type ExactSwitch interface {
	// Exact puts the probes into the process. The error says in a sentence why it can't be, and what to do; nothing is in the process
	// then.
	Exact(ctx context.Context) error
	// EndExact takes them out. The error says why they may still be there.
	EndExact() error
	ExactStatus() sampler.ExactStatus
}

// exactTimeout bounds how long switching exact mode on may take; it takes some 40 ms.
const exactTimeout = 30 * time.Second

// exactKey is what the key E does: it switches exact mode on, having asked, and off.
type exactKey struct {
	// agreed: somebody wants breakpoints in the process's code, by an answer or by the command line.
	agreed bool
	// busy is what is being done: "on" or "off"; "": nothing.
	busy string
	// told is what it ended by that the screen has said.
	told string
}

// exactMsg says that exact mode was switched on or off.
type exactMsg struct {
	off bool
	err error
}

// exactQuestion is asked before breakpoints are put into the process, the fullest form first.
var exactQuestion = []string{
	"exact mode: while it is on, the kernel keeps breakpoints in this process's code (libruby or libc). Put them in?",
	"exact mode puts breakpoints into this process's code (libruby or libc) while it is on. Do it?",
	"exact mode puts breakpoints into this process's code. Do it?",
	"put breakpoints into the process's code?",
}

// look takes over how exact mode is doing and says when it has ended itself. It reports whether the picture changes by that.
func (k *exactKey) look(sc *scene, say *message) bool {
	if sc.opt.Exact == nil {
		return false
	}
	before := sc.exact
	sc.exact = sc.opt.Exact.ExactStatus()
	s := &sc.exact
	k.agreed = k.agreed || s.On
	if s.Ended != k.told {
		if k.told = s.Ended; s.Ended != "" {
			k.agreed = false // what it costs is another question now
			say.fail(exactEnded(s) + ": sampling goes on")
		}
	}
	return s.On != before.On || s.Ended != before.Ended || s.Lost != before.Lost
}

// exactEnded says in a sentence why exact mode ended itself.
func exactEnded(s *sampler.ExactStatus) string {
	if s.Wrong {
		return "exact mode ended, and what it told is not to be trusted: " + s.Ended
	}
	return "exact mode ended: " + s.Ended
}

// press switches exact mode on or off. It asks before it is switched on for the first time.
func (k *exactKey) press(m *Model) tea.Cmd {
	say, s := &m.message, &m.exact
	switch {
	case m.opt.Exact == nil && m.opt.Replay:
		say.tell("exact mode is for a running process, and this is a recording: what was known exactly is marked (0 lists waits)")
	case m.opt.Exact == nil && m.fleet != nil:
		say.tell("exact mode is for one process: ddtop -p " + fmt.Sprint(m.process.PID) + ", then E")
	case m.opt.Exact == nil:
		say.tell("exact mode is not possible here")
	case k.busy != "":
		say.tell("exact mode is being switched " + k.busy)
	case s.On:
		k.busy = "off"
		say.say("switching exact mode off …")
		with := m.opt.Exact
		return func() tea.Msg { return exactMsg{off: true, err: with.EndExact()} }
	case m.source.Done:
		say.fail("exact mode is for a running process, and no samples come any more")
	case !k.agreed:
		m.prompt = k.ask(m)
	default:
		return k.begin(m)
	}
	return nil
}

// ask asks whether breakpoints may be put into the process.
func (k *exactKey) ask(m *Model) *prompt {
	forms := exactQuestion
	if s := &m.exact; s.Ended != "" {
		forms = []string{exactEnded(s) + ". Put the breakpoints in again?", exactEnded(s) + ". Again?", "it ended: " + s.Ended + ". Again?"}
	}
	return &prompt{forms: forms, hint: func() string { return "y yes   n no" }, left: func() {},
		yes: func() tea.Cmd { k.agreed = true; return k.begin(m) }}
}

// begin puts the probes in.
func (k *exactKey) begin(m *Model) tea.Cmd {
	k.busy = "on"
	m.message.say("switching exact mode on …")
	with := m.opt.Exact
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), exactTimeout)
		defer cancel()
		return exactMsg{err: with.Exact(ctx)}
	}
}

// done says what came of it.
func (k *exactKey) done(msg exactMsg, sc *scene, say *message) {
	k.busy = ""
	k.look(sc, say)
	switch {
	case msg.err != nil && msg.off:
		say.fail("exact mode was not ended cleanly: " + msg.err.Error())
	case msg.err != nil:
		k.agreed = false
		say.fail("no exact mode: " + msg.err.Error())
	case msg.off:
		say.say("exact mode is off: no breakpoints are left in the process")
	default:
		say.say("exact mode is on   0 lists all waits   E ends it")
	}
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
func exactHelp(s *sampler.ExactStatus, p *sampler.Process) []binding {
	counts := fmt.Sprintf("%s hits of its breakpoints told %s changes of the GVL, %s were lost", units.Count(int64(s.Hits)), units.Count(int64(s.Changes)), units.Count(int64(s.Lost)))
	switch {
	case s.On:
		return []binding{{show: cmp.Or(units.FinePercent(s.CostShare), "–"), help: "of the process's own CPU time is what exact mode costs it, by estimate, since " +
			p.WallTime(s.SinceNS).Format("15:04:05") + " (E ends it): " + counts}}
	case s.Ended != "":
		return []binding{{show: "exact", help: exactEnded(s) + "; " + counts}}
	}
	return nil
}

// readsHelp says in the help how sampling and exact mode are doing.
func (sc *scene) readsHelp() keyMap {
	k := sc.figures.readsHelp(&sc.process)
	k.bindings = append(k.bindings, exactHelp(&sc.exact, &sc.process)...)
	k.bindings = append(k.bindings, switchHelp(&sc.switches, &sc.process)...)
	return k
}
