package heaps

import (
	"context"
	"sync"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// Open attaches to a process again, with a separate source.
type Open func(ctx context.Context) (*live.Source, error)

const (
	// asker begins to follow calls when memory outside Ruby's objects has grown by asksFrom bytes since the first
	// count.
	asksFrom = 1_000_000
	// It goes on while each new count shows a growth of at least asksUntil bytes since the last one. malloc grows in
	// steps of 132 KB, so one step is enough.
	asksUntil = 100_000
)

// asksIdle is how long calls are followed without a new count. Counts begin at most 10 s apart, but can take longer.
const asksIdle = time.Minute

// asker follows the calls that ask the kernel for memory, while memory outside Ruby's objects grows. Any goroutine may
// use it.
type asker struct {
	open Open
	mu   sync.Mutex
	// src is a separate source, because objects are counted at the same time. It is nil until calls are followed.
	src    *live.Source
	follow live.Asks
	on     bool
	idle   *time.Timer
	// The fields first and last are the first and the last count. missing says why calls cannot be followed.
	first, last export.Before
	missing     string
	// The field most has the calls of one period in which calls were followed: the period with the most memory asked
	// for.
	most *sampler.MemoryAsks
}

// look starts or stops following calls, by the growth that a new count shows.
func (a *asker) look(ctx context.Context, now export.Before) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := a.last
	if a.last = now; last.Count == nil {
		a.first = now
		return
	}
	switch grown := last.GrownElsewhere(&now); {
	case a.on && grown < asksUntil:
		a.stop()
	case a.on:
		a.idle.Reset(asksIdle)
	case a.missing == "" && a.first.GrownElsewhere(&now) >= asksFrom && grown >= asksUntil:
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
	if a.follow, err = live.FollowAsks(ctx, a.src); err != nil {
		return err
	}
	a.on = true
	a.idle = time.AfterFunc(asksIdle, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.stop()
	})
	return nil
}

// stop ends following. The caller holds mu.
func (a *asker) stop() {
	if !a.on {
		return
	}
	a.on = false
	a.idle.Stop()
	if err := a.follow.Stop(); err != nil && a.missing == "" {
		a.missing = err.Error()
	}
	if sum := a.follow.Asked(); a.most == nil || sum.Bytes > a.most.Bytes {
		a.most = sum
	}
}

// text returns a sentence about the calls while they are followed.
func (a *asker) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on {
		return export.AskedText(a.src.Dictionary(), a.follow.Asked(), "")
	}
	return export.AskedText(nil, nil, a.missing)
}

// add ends following, and adds the calls with the memory that they asked for to h.
func (a *asker) add(h *export.Heap) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stop(); a.most != nil {
		h.Asks(a.src.Dictionary(), a.most, "")
		return
	}
	h.Asks(nil, nil, a.missing)
}

// close ends following, and closes the source.
func (a *asker) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stop()
	if a.src != nil {
		_ = a.src.Close() // an error of closing changes no result
	}
}
