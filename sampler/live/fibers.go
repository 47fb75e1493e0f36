package live

import (
	"context"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// Fibers finds suspended fibers (ruby.Reader.SuspendedFibers). Call it after Once in the same goroutine. Fibers may
// have run since Once.
func (s *Source) Fibers(ctx context.Context) (sampler.Fibers, error) {
	ctx, cancel := context.WithTimeout(ctx, onceLimit)
	defer cancel()
	return apart.Result(ctx, &s.reading, func() (sampler.Fibers, error) { return s.reader.SuspendedFibers(ctx) }, nil)
}

// Fibers finds the suspended fibers in the core file. Call it after Once.
func (c *Core) Fibers(ctx context.Context) (sampler.Fibers, error) {
	return c.reader.SuspendedFibers(ctx)
}

// followFibers adds the latest state of the waiting fibers to a sample that was just read.
func (s *sampling) followFibers(sample *sampler.Sample) {
	if sample.Depth == sampler.StackTick {
		s.fibersNow = s.reader.FollowFibers(pace.Monotonic())
	}
	sample.Fibers = s.fibersNow
}
