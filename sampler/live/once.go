package live

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// onceLimit limits the time of Once, and of other reads for which a caller waits.
const onceLimit = 10 * time.Second

// Once takes one complete sample: all stacks, and the kernel's answer about every thread. It retries for a moment if
// threads start or end, or if a stack could not be read completely. The error is attach.ErrNoAnswer if reading takes
// more than about ten seconds, or goes on for half a second after the end of ctx.
func (s *Source) Once(ctx context.Context) (*sampler.Sample, error) {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	var best atomic.Pointer[sampler.Sample]
	err := s.reading.Do(ctx, func() error { return s.once(ctx, &best) }, nil)
	if x := best.Load(); x != nil && (err == nil || errors.Is(err, attach.ErrNoAnswer)) {
		return x, nil
	}
	return nil, err
}

// stopWith makes the current tick stop when ctx ends. The caller must call undo afterwards, and may call it twice.
func (s *sampling) stopWith(ctx context.Context) (undo func()) {
	s.reader.Resume()
	stopped := make(chan struct{})
	quit := context.AfterFunc(ctx, func() {
		s.reader.Stop()
		close(stopped)
	})
	return sync.OnceFunc(func() {
		if !quit() {
			<-stopped // otherwise a late Stop could end the next read
		}
	})
}

// once tries to take a complete sample. It stores the best one so far in best. If there is none, it returns an error.
func (s *Source) once(ctx context.Context, best *atomic.Pointer[sampler.Sample]) error {
	const tries = 20
	defer s.tickBegan.Store(0)
	s.tickBegan.Store(pace.Monotonic())
	defer s.stopWith(ctx)()
	s.warmUp()
	s.readSlow()
	var bestFlaws int
	var last error
	var sleep pace.Sleeper // needs no timer, because the pauses between tries are short
	for try := 0; try < tries && ctx.Err() == nil; try++ {
		s.tickBegan.Store(0)
		sleep.Until(s.rests())
		s.tickBegan.Store(pace.Monotonic())
		var sample sampler.Sample
		s.ticking.Lock()
		if last = s.readTick(sampler.StackTick, &sample); last == nil {
			s.view.Frozen = s.counts.Frozen()
			s.view.Fill(&sample, true)
		}
		s.ticking.Unlock()
		if last != nil {
			if err := s.gone(last); err != nil {
				return err
			}
			continue
		}
		// ResolveSockets looks up the names of more sockets in the kernel's tables. Only the next try can use them.
		_, _ = s.tasks.ResolveSockets(ctx, pace.Monotonic())
		s.slowCounters(&sample, true)
		n := flaws(&sample)
		if s.reader.Cut() {
			n++ // data besides the stacks is missing
		}
		if s.pauses != nil && s.pauses.cut {
			n++ // the stop ended before all stacks were read, as can happen on a full machine
		}
		if best.Load() == nil || n <= bestFlaws {
			best.Store(sample.Clone())
			bestFlaws = n
		}
		if bestFlaws == 0 && try > 0 {
			break
		}
	}
	if best.Load() == nil {
		if last == nil {
			last = ctx.Err()
		}
		return last
	}
	x := *best.Load()
	x.Reads = *s.reader.Reads()
	best.Store(&x)
	return nil
}

// flaws counts the stacks and ractors of a sample that are missing or doubtful, and might be better in another sample.
func flaws(s *sampler.Sample) int {
	n := 0
	for i := range s.Threads {
		if s.Threads[i].Quality&sampler.StackFresh == 0 {
			n++ // the tick had no time to read this stack
		}
		if s.Threads[i].Quality&(sampler.StackFailed|sampler.StackPartial) != 0 && s.Threads[i].Bits&sampler.BitStarting == 0 {
			n++
		}
	}
	for i := range s.Ractors {
		if s.Ractors[i].Torn || s.Ractors[i].OwnerStart != s.Ractors[i].OwnerEnd {
			n++
		}
	}
	return n
}

// Fibers finds suspended fibers (ruby.Reader.SuspendedFibers). Call it after Once in the same goroutine. Fibers may
// have run after Once took its sample.
func (s *Source) Fibers(ctx context.Context) (sampler.Fibers, error) {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	return apart.Result(ctx, &s.reading, func() (sampler.Fibers, error) { return s.reader.SuspendedFibers(ctx) }, nil)
}

// Fibers finds the suspended fibers in the core file. Call it after Once.
func (c *Core) Fibers(ctx context.Context) (sampler.Fibers, error) {
	return c.reader.SuspendedFibers(ctx)
}

// followFibers adds what is known about the waiting fibers to a sample that was just read.
func (s *sampling) followFibers(sample *sampler.Sample) {
	if sample.Depth == sampler.StackTick {
		s.fibersNow = s.reader.FollowFibers(pace.Monotonic())
	}
	sample.Fibers = s.fibersNow
}
