package heaps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/growth"
	"github.com/ddtop/ddtop/sampler/live"
)

// The interval between two counts of objects is a tenth of the measurement, but within these bounds.
const (
	leastCountEvery, mostCountEvery = time.Second, 10 * time.Second
	countsWanted                    = 10
)

// countEvery returns the interval between two counts of objects in a measurement of the given length.
func countEvery(length time.Duration) time.Duration {
	return min(max(length/countsWanted, leastCountEvery), mostCountEvery)
}

// Count counts objects once, or repeatedly for a length of time. The function open attaches a second time to the same
// process. note says why the counting ended early.
func Count(ctx context.Context, src *live.Source, open Open, length time.Duration) (h *export.Heap, note string, err error) {
	began := time.Now()
	var last *sampler.HeapCount
	var watch *growth.Watch
	if length > 0 {
		watch = new(growth.Watch)
	}
	every := countEvery(length)
	var before export.Before
	var memory *sampler.MemoryParts
	asks := asker{open: open}
	defer asks.close()
	if length > 0 {
		before.Memory, _ = live.ReadMemory(ctx, src) // CountHeap returns the error
	}
	for next := began; ; {
		c, err := src.CountHeap(ctx)
		if err != nil && last == nil {
			return nil, "", err
		}
		if err != nil {
			note = fmt.Sprintf("%v after %.1f s; this is what was counted until then", err, time.Since(began).Seconds())
			if ctx.Err() != nil {
				note = fmt.Sprintf("interrupted after %.1f s; this is what was counted until then", time.Since(began).Seconds())
			} else if errors.Is(err, sampler.ErrEnded) {
				note = fmt.Sprintf("process %d ended after %.1f s; this is what was counted until then", src.Process().PID, time.Since(began).Seconds())
			}
			break
		}
		last = c
		if before.Count == nil {
			before.Count = c
		}
		if watch != nil {
			watch.Add(c)
			if m, err := live.ReadMemory(ctx, src); err == nil {
				asks.look(ctx, export.Before{Memory: m, Count: c})
			}
		}
		next = next.Add(every)
		if now := time.Now(); next.Before(now) { // a count can take longer than the interval
			next = now
		}
		if next.Sub(began) > length {
			break
		}
		wait := time.NewTimer(time.Until(next))
		select {
		case <-wait.C:
		case <-ctx.Done(): // the next count returns an error
		}
		wait.Stop()
	}
	h = export.NewHeap(src.Process(), last, watch)
	if memory, err = live.ReadMemory(ctx, src); err == nil {
		h.Memory(memory, last, before)
		asks.add(h)
	} else if note == "" {
		note = fmt.Sprintf("what the memory consists of is left out: %v", err)
	}
	return h, note, nil
}
