package ui

import (
	"context"
	"errors"
	"time"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/scene"
	"github.com/ddtop/ddtop/ui/store"
)

// ErrNothingToCompare is returned for a recording without two samples: nothing can be compared with it.
var ErrNothingToCompare = errors.New("there is nothing in it to compare with")

// LoadAgainst reads a recording, the last MaxHistory of it, to compare with. name is what the screen calls it.
func LoadAgainst(ctx context.Context, src sampler.Source, name string, o scene.Options) (*scene.Against, error) {
	o.Source = src
	if r, ok := src.(interface{ Duration() time.Duration }); ok {
		o.History = min(max(store.DefaultHistory, r.Duration()+time.Second), scene.MaxHistory)
	}
	of, err := newStore(src, o.WithDefaults())
	if err != nil {
		return nil, err
	}
	of.Run(ctx)
	if err := errors.Join(of.State().Err, ctx.Err()); err != nil {
		return nil, err
	}
	x := &scene.Against{Name: name, Process: of.Process(), Dict: of.Dict, Builder: flamegraph.NewBuilder(of.Dict)}
	of.Read(func(r *store.Reading) {
		if r.LastNS != 0 {
			first, _ := r.Timeline.Range()
			r.Rolling.SnapshotRange(first, r.LastNS, &x.Weights)
		}
	})
	if x.Weights.ToNS <= x.Weights.FromNS || len(x.Weights.Entries) == 0 {
		return nil, ErrNothingToCompare
	}
	return x, nil
}
