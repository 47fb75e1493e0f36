package ui

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/store"
)

// ErrNothingToCompare is returned for a recording without two samples: nothing can be compared with it.
var ErrNothingToCompare = errors.New("there is nothing in it to compare with")

// Against is another recording, with which the flamegraph and the top functions of a screen are compared.
type Against struct {
	name    string
	process sampler.Process
	dict    *sampler.Dictionary
	weights flamegraph.Snapshot
	builder *flamegraph.Builder
}

// LoadAgainst reads a recording, the last MaxHistory of it, to compare with. name is what the screen calls it.
func LoadAgainst(ctx context.Context, src sampler.Source, name string, o Options) (*Against, error) {
	o.Source = src
	if r, ok := src.(interface{ Duration() time.Duration }); ok {
		o.History = min(max(store.DefaultHistory, r.Duration()+time.Second), MaxHistory)
	}
	of, err := newStore(src, o.withDefaults())
	if err != nil {
		return nil, err
	}
	of.Run(ctx)
	if err := errors.Join(of.State().Err, ctx.Err()); err != nil {
		return nil, err
	}
	x := &Against{name: name, process: of.Process(), dict: of.Dict, builder: flamegraph.NewBuilder(of.Dict)}
	of.Read(func(r *store.Reading) {
		if r.LastNS != 0 {
			first, _ := r.Timeline.Range()
			r.Rolling.SnapshotRange(first, r.LastNS, &x.weights)
		}
	})
	if x.weights.ToNS <= x.weights.FromNS || len(x.weights.Entries) == 0 {
		return nil, ErrNothingToCompare
	}
	return x, nil
}

// spanNS is how long the recording is, in ns.
func (x *Against) spanNS() int64 { return x.weights.ToNS - x.weights.FromNS }

// about says what it is, and of when.
func (x *Against) about() string {
	return fmt.Sprintf("%s: %s until %s", x.name, units.ProseDuration(x.spanNS()), x.process.WallTime(x.weights.ToNS).Format("15:04:05"))
}

// factor is by what its weights are multiplied to be those of as much time as others are of.
func (x *Against) factor(of *flamegraph.Snapshot) float64 {
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

// rootLike gives its threads the labels that threads of such names have in the screen's own tree.
func (x *Against) rootLike(root func(sampler.ThreadID) string, own *flamegraph.Snapshot, dict *sampler.Dictionary) func(sampler.ThreadID) string {
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
		name := gvl.ThreadName(id, x.dict)
		if label, ok := labels[threadPattern(name)]; ok {
			return label
		}
		return name
	}
}

// loadAgainst compares the whole tree with that of another recording, of as much time: by the names of functions alone, for a deploy
// moves files and lines.
func (v *flameView) loadAgainst(o flamegraph.Options, weights *flamegraph.Snapshot, dict *sampler.Dictionary) {
	v.diff, v.diffSelf, v.changes = make(map[*flamegraph.Node]float64), make(map[*flamegraph.Node]float64), nil
	x := v.against
	o.Root = x.rootLike(o.Root, weights, dict)
	before := x.builder.Build(&x.weights, o)
	factor := x.factor(weights)
	whole := float64(v.whole.Root.Total)
	if whole == 0 {
		whole = float64(before.Root.Total) * factor
	}
	if whole == 0 {
		return
	}
	own := make(map[string]float64)
	flamegraph.DiffByName(before, v.whole, factor, func(after *flamegraph.Node, label string, self, total float64) {
		own[label] += self / whole
		if after != nil {
			v.diff[after], v.diffSelf[after] = total/whole, self/whole
		}
	})
	v.takeChanges(own)
}

// comparing reports whether what is shown is compared with something. Of single threads, or of a route, another recording has none.
func (v *flameView) comparing() bool {
	return v.base != nil && (v.baseKind != againstBase || v.filter == "")
}

// Close does nothing: the recording was read.
func (x *Against) Close() error { return nil }
