package run

import (
	"context"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// tellEvery is the interval at which ddtop searches for processes that it cannot read. unreadableFor is how old such a
// process must be before ddtop reports it. A younger process may still be starting, and ddtop may soon be able to read
// it.
const (
	tellEvery     = 2 * time.Second
	unreadableFor = 10 * time.Second
)

type teller struct {
	say  func(sampler.Relative)
	told map[toldKey]bool
}

// toldKey identifies a process that ddtop has reported as unreadable.
type toldKey struct {
	pid   int
	start uint64
}

// KeepTelling calls say once for each process of the group that ddtop cannot read. It returns when ctx ends.
func KeepTelling(ctx context.Context, g sampler.Group, say func(sampler.Relative)) {
	t := teller{say: say, told: make(map[toldKey]bool)}
	Every(ctx, tellEvery, func(now time.Time) {
		list, _ := g.Relatives()
		t.tell(list, now)
	})
}

// tell reports each unreadable process once. It leaves out a process if nothing but its name suggests that it is a
// Ruby.
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
