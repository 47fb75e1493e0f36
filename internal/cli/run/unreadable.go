package run

import (
	"context"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// tellEvery is how often it is looked which processes can't be read, and unreadableFor for how long they must have been
// there: one that is starting can't be read yet.
const (
	tellEvery     = 2 * time.Second
	unreadableFor = 10 * time.Second
)

type teller struct {
	say  func(sampler.Relative)
	told map[toldKey]bool
}

// toldKey names a process of which it was said that it can't be read.
type toldKey struct {
	pid   int
	start uint64
}

// KeepTelling says, until ctx ends, of each process of a group once that it can't be read.
func KeepTelling(ctx context.Context, g sampler.Group, say func(sampler.Relative)) {
	t := teller{say: say, told: make(map[toldKey]bool)}
	Every(ctx, tellEvery, func(now time.Time) {
		list, _ := g.Relatives()
		t.tell(list, now)
	})
}

// tell says which processes can't be read that it has not said it of. What is no Ruby only has a name like one.
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
	t.told = here // those that have ended are forgotten
}
