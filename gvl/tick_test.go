package gvl

import (
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestLooksCount: if all changes of the GVL are known, the figure Looks counts some lock ticks: those that also read
// the stack of a thread without the GVL. It does not count samples that read all stacks.
func TestLooksCount(t *testing.T) {
	fresh := []sampler.Thread{{Quality: sampler.StackFresh}}
	for _, c := range []struct {
		name    string
		exact   bool
		depth   sampler.Depth
		threads []sampler.Thread
		state   State
		want    int64
	}{
		{"a thread that began something", true, sampler.LockTick, fresh, IO, 1},
		{"the holder's stack", true, sampler.LockTick, fresh, Running, 0},
		{"no stack", true, sampler.LockTick, []sampler.Thread{{}}, IO, 0},
		{"all stacks", true, sampler.StackTick, fresh, IO, 0},
		{"changes are not known", false, sampler.LockTick, fresh, IO, 0},
	} {
		k := Tick{
			Sample: &sampler.Sample{Depth: c.depth, Threads: c.threads},
			States: []ThreadState{{State: c.state}}, FromNS: 1, ToNS: 2, Exact: c.exact,
		}
		if q := k.Quality(); q.Looks != c.want {
			t.Errorf("%s: %d looks, want %d", c.name, q.Looks, c.want)
		}
	}
}
