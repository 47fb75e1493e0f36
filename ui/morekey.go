package ui

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
)

// moreKey handles the key B. The key lets ddtop use more CPU time for a limited time. During this time exact mode may
// also cost more. If the user presses B again, this time ends.
type moreKey struct {
	// The field until is the time at which the higher limits of CPU time end. It is zero if the usual limits apply now.
	until time.Time
}

// left returns how long the higher limits of CPU time still apply.
func (k *moreKey) left(sc *scene.Scene) time.Duration {
	if k.until.IsZero() {
		return 0
	}
	return max(k.until.Sub(sc.Now()), 0)
}

// press begins the time in which ddtop may use more CPU time, or ends it.
func (k *moreKey) press(m *Model) tea.Cmd {
	say, limit := &m.message, m.Process.Overhead
	spender, ok := m.store.Src.(sampler.Spender)
	var may []string // what the higher limits allow
	if limit > 0 && limit < sampler.MoreShare {
		may = append(may, "ddtop may take "+scene.MostText(sampler.MoreShare)+" of a CPU instead of "+scene.MostText(limit))
	}
	if m.Opt.Exact != nil {
		may = append(may, "exact mode may cost the process "+scene.MostText(sampler.MoreExactCost)+" of its CPU time")
	}
	switch {
	case !ok || m.Opt.Replay:
		say.Tell("more CPU time for ddtop is for a running process: here nothing is being read")
	case m.Source.Done:
		say.Fail("more CPU time for ddtop is for a running process, and this one has ended")
	case len(may) == 0 && limit == 0:
		say.Tell("ddtop takes what it needs already: --overhead off")
	case len(may) == 0:
		say.Tell("ddtop may take " + scene.MostText(limit) + " of a CPU already (--overhead)")
	case k.left(&m.Scene) > 0:
		k.until = time.Time{}
		spender.TakeMore(0)
		say.Say("the limits of --overhead and --exact-cost hold again")
	default:
		k.until = m.Scene.Now().Add(sampler.MoreTime)
		spender.TakeMore(sampler.MoreTime)
		say.Say("for 30 s " + strings.Join(may, ", and ") + "; B ends it")
	}
	return nil
}
