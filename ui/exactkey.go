package ui

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/widget"
)

// exactTimeout limits how long ddtop may take to switch exact mode on. It usually takes about 40 ms.
const exactTimeout = 30 * time.Second

// exactKey handles the key E, which switches exact mode on and off. Before the key switches exact mode on for the first
// time, the screen asks the user for permission.
type exactKey struct {
	// agreed is true if the user has allowed breakpoints in the process's code: by a yes on the screen, or on the
	// command line.
	agreed bool
	// busy is "on" or "off" while exact mode is being switched on or off. Otherwise it is empty.
	busy string
	// saidEnded is the last reason for the end of exact mode that the screen has shown. It is kept so that the screen
	// does not show the same reason twice.
	saidEnded string
}

// exactMsg reports that switching exact mode on or off is done, or why it failed.
type exactMsg struct {
	off bool
	err error
}

// exactQuestion is the question that the screen asks before ddtop puts breakpoints into the process. It has several
// lengths for different widths of the screen. The longest comes first.
var exactQuestion = []string{
	"exact mode: while it is on, the kernel keeps breakpoints in this process's code (libruby or libc). Put them in?",
	"exact mode puts breakpoints into this process's code (libruby or libc) while it is on. Do it?",
	"exact mode puts breakpoints into this process's code. Do it?",
	"put breakpoints into the process's code?",
}

// update reads the state of exact mode. If exact mode ended although the user did not switch it off, it tells the user.
// It returns true if the screen must be drawn again.
func (k *exactKey) update(sc *scene.Scene, say *scene.Message) bool {
	if sc.Opt.Exact == nil {
		return false
	}
	before := sc.Exact
	sc.Exact = sc.Opt.Exact.ExactStatus()
	s := &sc.Exact
	k.agreed = k.agreed || s.On
	if s.Ended != k.saidEnded {
		if k.saidEnded = s.Ended; s.Ended != "" {
			k.agreed = false // before exact mode is switched on again, the user must agree to its cost again
			say.Fail(widget.ExactEnded(s) + ": sampling goes on")
		}
	}
	return s.On != before.On || s.Ended != before.Ended || s.Lost != before.Lost
}

// press switches exact mode on or off. It asks the user before it switches exact mode on for the first time.
func (k *exactKey) press(m *Model) tea.Cmd {
	say, s := &m.message, &m.Exact
	switch {
	case m.Opt.Exact == nil && m.Opt.Replay:
		say.Tell("exact mode is for a running process, and this is a recording: what was known exactly is marked (0 lists waits)")
	case m.Opt.Exact == nil && m.fleet != nil:
		say.Tell("exact mode is for one process: ddtop -p " + fmt.Sprint(m.Process.PID) + ", then E")
	case m.Opt.Exact == nil:
		say.Tell("exact mode is not possible here")
	case k.busy != "":
		say.Tell("exact mode is being switched " + k.busy)
	case s.On:
		k.busy = "off"
		say.Say("switching exact mode off …")
		with := m.Opt.Exact
		return func() tea.Msg { return exactMsg{off: true, err: with.EndExact()} }
	case m.Source.Done:
		say.Fail("exact mode is for a running process, and no samples come any more")
	case !k.agreed:
		m.prompt = k.ask(m)
	default:
		return k.begin(m)
	}
	return nil
}

// ask asks the user whether ddtop may put breakpoints into the process.
func (k *exactKey) ask(m *Model) *prompt {
	forms := exactQuestion
	if s := &m.Exact; s.Ended != "" {
		forms = []string{widget.ExactEnded(s) + ". Put the breakpoints in again?", widget.ExactEnded(s) + ". Again?", "it ended: " + s.Ended + ". Again?"}
	}
	return &prompt{forms: forms, hint: func() string { return "y yes   n no" }, left: func() {},
		yes: func() tea.Cmd { k.agreed = true; return k.begin(m) }}
}

// begin switches exact mode on.
func (k *exactKey) begin(m *Model) tea.Cmd {
	k.busy = "on"
	m.message.Say("switching exact mode on …")
	with := m.Opt.Exact
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(context.Background(), exactTimeout)
		defer cancel()
		return exactMsg{err: with.Exact(ctx)}
	}
}

// done shows the result of switching exact mode on or off.
func (k *exactKey) done(msg exactMsg, sc *scene.Scene, say *scene.Message) {
	k.busy = ""
	k.update(sc, say)
	switch {
	case msg.err != nil && msg.off:
		say.Fail("exact mode was not ended cleanly: " + msg.err.Error())
	case msg.err != nil:
		k.agreed = false
		say.Fail("no exact mode: " + msg.err.Error())
	case msg.off:
		say.Say("exact mode is off: no breakpoints are left in the process")
	default:
		say.Say("exact mode is on   0 lists all waits   E ends it")
	}
}
