package scene

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
)

// Against is another recording, with which the flamegraph and the top functions of a screen are compared.
type Against struct {
	Name    string
	Process sampler.Process
	Dict    *sampler.Dictionary
	Weights flamegraph.Snapshot
	Builder *flamegraph.Builder
}

// spanNS is how long the recording is, in ns.
func (x *Against) spanNS() int64 { return x.Weights.ToNS - x.Weights.FromNS }

// About says what it is, and of when.
func (x *Against) About() string {
	return fmt.Sprintf("%s: %s until %s", x.Name, units.ProseDuration(x.spanNS()), x.Process.WallTime(x.Weights.ToNS).Format("15:04:05"))
}

// Factor is by what its weights are multiplied to be those of as much time as others are of.
func (x *Against) Factor(of *flamegraph.Snapshot) float64 {
	return float64(of.ToNS-of.FromNS) / float64(x.spanNS())
}

// threadPattern is a thread's name without its numbers: worker-1 of one process is worker-7 of another.
func threadPattern(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}

// RootLike gives its threads the labels that threads of such names have in the screen's own tree.
func (x *Against) RootLike(root func(sampler.ThreadID) string, own *flamegraph.Snapshot, dict *sampler.Dictionary) func(sampler.ThreadID) string {
	if root == nil {
		return nil
	}
	seen := make(map[sampler.ThreadID]struct{})
	for i := range own.Entries {
		seen[own.Entries[i].Key.Thread] = struct{}{}
	}
	labels := make(map[string]string)
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		if p := threadPattern(gvl.ThreadName(id, dict)); labels[p] == "" {
			labels[p] = root(id)
		}
	}
	return func(id sampler.ThreadID) string {
		name := gvl.ThreadName(id, x.Dict)
		if label, ok := labels[threadPattern(name)]; ok {
			return label
		}
		return name
	}
}

// Close does nothing: the recording was read.
func (x *Against) Close() error { return nil }
