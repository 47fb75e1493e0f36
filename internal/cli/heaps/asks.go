package heaps

import (
	"context"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// Open attaches to a process once more.
type Open func(ctx context.Context) (*live.Source, error)

const (
	// asksFrom is the least growth outside Ruby's objects, in bytes, for which calls that ask for memory are followed.
	asksFrom = 1_000_000
	// asksUntil is the least growth between two counts, in bytes, while they are. An arena of malloc grows by 132 KB.
	asksUntil = 100_000
)

// asker follows the calls that ask the kernel for memory, while memory outside Ruby's objects grows.
type asker struct {
	open Open
	// src is a source of its own, because calls are followed while objects are counted. It is nil before that.
	src    *live.Source
	follow live.Asks
	on     bool
	// last is the count before, missing why calls cannot be followed.
	last    export.Before
	missing string
	// most are the calls of the time in which most memory was asked for.
	most *sampler.MemoryAsks
}

// look decides after a count whether calls are followed. first is the first count.
func (a *asker) look(ctx context.Context, first, now export.Before) {
	last := a.last
	if a.last = now; last.Count == nil {
		return
	}
	switch {
	case a.on && last.GrownElsewhere(&now) < asksUntil:
		a.stop()
	case !a.on && a.missing == "" && first.GrownElsewhere(&now) >= asksFrom && last.GrownElsewhere(&now) >= asksUntil:
		if err := a.start(ctx); err != nil && ctx.Err() == nil {
			a.missing = err.Error()
		}
	}
}

func (a *asker) start(ctx context.Context) (err error) {
	if a.src == nil {
		if a.src, err = a.open(ctx); err != nil {
			return err
		}
	}
	a.follow, err = live.FollowAsks(ctx, a.src)
	a.on = err == nil
	return err
}

// stop ends following.
func (a *asker) stop() {
	if !a.on {
		return
	}
	a.on = false
	if err := a.follow.Stop(); err != nil && a.missing == "" {
		a.missing = err.Error()
	}
	if sum := a.follow.Asked(); a.most == nil || sum.Bytes > a.most.Bytes {
		a.most = sum
	}
}

// add ends following, and adds what was asked for to h.
func (a *asker) add(h *export.Heap) {
	a.stop()
	switch {
	case a.most != nil:
		h.Asks(a.src.Dictionary(), a.most, "")
	default:
		h.Asks(nil, nil, a.missing)
	}
}

// close ends following, and closes the source.
func (a *asker) close() {
	a.stop()
	if a.src != nil {
		_ = a.src.Close() // nothing depends on how the process was left
	}
}
