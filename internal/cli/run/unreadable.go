package run

import (
	"context"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// tellEvery is the interval at which ddtop searches for processes that it cannot read. ddtop reports such a process
// only when its age is unreadableFor, because a process that is just starting cannot be read yet.
const (
	tellEvery     = 2 * time.Second
	unreadableFor = 10 * time.Second
)

type teller struct {
	say  func(sampler.Relative)
	told map[toldKey]bool
}

// toldKey identifies a process that was reported as unreadable.
type toldKey struct {
	pid   int
	start uint64
}

// KeepTelling calls the function say for each process of the group that cannot be read, once per process. It returns
// when ctx ends.
func KeepTelling(ctx context.Context, g sampler.Group, say func(sampler.Relative)) {
	t := teller{say: say, told: make(map[toldKey]bool)}
	Every(ctx, tellEvery, func(now time.Time) {
		list, _ := g.Relatives()
		t.tell(list, now)
	})
}

// tell reports the unreadable processes, each once. It leaves out processes of which only the name looks like Ruby's.
func (t *teller) tell(list []sampler.Relative, now time.Time) {
	here := make(map[toldKey]bool, len(t.told))
	for _, r := range list {
		if r.NotRuby || r.Why == "" || !r.EndedAt.IsZero() || now.Sub(r.StartedAt) < unreadableFor {
			continue
		}
		k := toldKey{r.PID, r.StartTicks}
		here[k] = true
		if !t.told[k] {
			t.say(r)
		}
	}
	t.told = here // forget the ended processes
}
