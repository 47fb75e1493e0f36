package ui

import (
	"context"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/ui/scene"
)

// nativeKey handles the key C, which switches the reading of running threads' C stacks on and off.
type nativeKey struct {
	// busy is true while the reading of C stacks is being switched on or off.
	busy bool
	// saidFailed is the last reason for missing C stacks that the screen has shown. It is kept so that the screen does
	// not show the same reason twice.
	saidFailed string
}

// nativeMsg reports that the reading of running threads' C stacks was switched on or off, or why this failed.
type nativeMsg struct {
	off bool
	err error
}

// update tells the user why ddtop cannot read C stacks, once for each reason. It returns true if the picture changes.
func (k *nativeKey) update(sc *scene.Scene, say *scene.Message) bool {
	if sc.Opt.Native == nil || k.busy {
		return false
	}
	why := sc.Opt.Native.Failed()
	if why == k.saidFailed {
		return false
	}
	if k.saidFailed = why; why != "" {
		say.Fail("no C functions of running threads: " + why)
	}
	return true
}

// press switches the reading of running threads' C stacks on or off.
func (k *nativeKey) press(m *Model) tea.Cmd {
	with := m.Opt.Native
	switch {
	case with == nil && m.Opt.Replay:
		m.message.Tell("this is a recording: it has the C functions of running threads if it was made with --native")
	case with == nil:
		m.message.Tell("C functions of running threads are for one process: ddtop -p PID")
	case k.busy:
		m.message.Tell("C functions of running threads are being switched")
	case with.On():
		k.busy = true
		return func() tea.Msg { return nativeMsg{off: true, err: with.End()} }
	case m.Source.Done:
		m.message.Fail("C functions of running threads need a running process, and this one has ended")
	default:
		k.busy = true
		m.message.Say("taking C functions of running threads …")
		return func() tea.Msg {
			ctx, cancel := context.WithTimeout(context.Background(), exactTimeout)
			defer cancel()
			return nativeMsg{err: with.Start(ctx)}
		}
	}
	return nil
}

// done shows whether the reading of C stacks was switched on or off, or why this failed.
func (k *nativeKey) done(msg nativeMsg, sc *scene.Scene, say *scene.Message) {
	k.busy = false
	k.saidFailed = sc.Opt.Native.Failed()
	switch {
	case msg.err != nil && msg.off:
		say.Fail("C functions of running threads were not ended cleanly: " + msg.err.Error())
	case msg.err != nil:
		say.Fail("no C functions of running threads: " + msg.err.Error())
	case msg.off:
		say.Say("no more C functions of running threads")
	default:
		say.Say("the flamegraph shows C functions of running threads from now on   C ends it")
	}
}
