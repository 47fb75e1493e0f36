package heaps

import (
	"context"
	"sync"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// Open attaches once more to a process that ddtop already samples, and returns a second, separate source.
type Open func(ctx context.Context) (*live.Source, error)

const (
	// asksFrom is a growth of memory outside Ruby's objects since the first count, in bytes. From this growth on, asker
	// follows the calls that allocate memory.
	asksFrom = 1_000_000
	// asksUntil is the least growth since the previous count with which asker continues, in bytes. With less growth, it
	// stops. malloc asks the kernel for memory in steps of 132 KB, so a single step is enough.
	asksUntil = 100_000
)

// asksIdle is how long asker goes on following calls if there is no new count of objects. Counts begin at most 10 s
// apart, but a count can take longer.
const asksIdle = time.Minute

// asker finds the code that asks the kernel for memory. While memory outside Ruby's objects grows, it follows the
// system calls that allocate memory. Any goroutine may use it.
type asker struct {
	open Open
	mu   sync.Mutex
	// src is a separate source for following calls, because the first source counts objects at the same time. It is nil
	// until asker first follows calls.
	src    *live.Source
	follow live.Asks
	on     bool
	idle   *time.Timer
	// first and last are the first count and the most recent count. missing says why ddtop cannot follow the calls.
	first, last export.Before
	missing     string
	// asker can follow calls in several periods. most has the calls of the period in which they asked for the most
	// memory.
	most *sampler.MemoryAsks
}

// look starts or stops following calls, depending on the growth that a new count shows.
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

// stop ends the following of calls. The caller holds mu.
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

// text returns a sentence about the calls that asker follows now. If ddtop cannot follow calls, the sentence says why.
func (a *asker) text() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on {
		return export.AskedText(a.src.Dictionary(), a.follow.Asked(), "")
	}
	return export.AskedText(nil, nil, a.missing)
}

// add stops following calls. It adds the calls to h, together with the memory that they asked for.
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
