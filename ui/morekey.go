package ui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
)

// moreKey is what the key B does: it lets ddtop take more of a CPU for a time, and ends that.
type moreKey struct {
	// until is when it ends. It is zero if the usual limit holds.
	until time.Time
}

// left is for how long more may still be taken.
func (k *moreKey) left(sc *scene.Scene) time.Duration {
	if k.until.IsZero() {
		return 0
	}
	return max(k.until.Sub(sc.Now()), 0)
}

// press begins or ends it.
func (k *moreKey) press(m *Model) tea.Cmd {
	say, most := &m.message, scene.MostText(sampler.MoreShare)
	spender, ok := m.store.Src.(sampler.Spender)
	switch {
	case !ok || m.Opt.Replay:
		say.Tell("more CPU time for ddtop is for a running process: here nothing is being read")
	case m.Source.Done:
		say.Fail("more CPU time for ddtop is for a running process, and this one has ended")
	case m.Process.Overhead == 0:
		say.Tell("ddtop takes what it needs already: --overhead off")
	case m.Process.Overhead >= sampler.MoreShare:
		say.Tell("ddtop may take " + scene.MostText(m.Process.Overhead) + " of a CPU already (--overhead)")
	case k.left(&m.Scene) > 0:
		k.until = time.Time{}
		spender.TakeMore(0)
		say.Say("ddtop takes no more than " + scene.MostText(m.Process.Overhead) + " of a CPU again")
	default:
		k.until = m.Scene.Now().Add(sampler.MoreTime)
		spender.TakeMore(sampler.MoreTime)
		say.Say("for 30 s ddtop may take " + most + " of a CPU instead of " + scene.MostText(m.Process.Overhead) + ", to read as often as asked for; B ends it")
	}
	return nil
}
