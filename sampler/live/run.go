package live

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/handover"
)

// Run samples until ctx or the target ends. The clock, a goroutine on its own OS thread, takes the samples. Run calls
// emit in the caller's goroutine. Samples come in batches, a few hundredths of a second late. If emit takes too long,
// samples are lost and counted (sampler.Reads.Lost).
func (s *Source) Run(ctx context.Context, emit func(*sampler.Sample)) error {
	end := func() {}
	defer func() { end() }()
	ctx, stop := context.WithCancel(ctx)
	gaveWay := false
	left := s.left
	h, ended := handover.New(), make(chan error, 1)
	h.Sharers = &s.sharers
	var failed any
	go func() {
		defer func() {
			if r := recover(); r != nil {
				failed = fmt.Sprintf("%v\n%s", r, debug.Stack())
				ended <- nil
			}
		}()
		ended <- s.clocked(ctx, func(x *sampler.Sample) { h.Put(x, s.listing.list) })
	}()
	over := false
	defer func() {
		if stop(); !over { // emit has panicked
			<-ended
		}
	}()
	d := delivery{mode: &s.exact, switched: &s.switches, emit: emit, first: func() {
		endSwitches, endRunning := s.startSwitches(ctx), s.Running.begins(ctx)
		end = func() { endRunning(); endSwitches() }
	}}
	for {
		select {
		case <-h.Wake:
			d.fetch()
			h.Take(d.ready, d.deliver)
		case <-left:
			left, gaveWay = nil, ctx.Err() == nil
			stop()
		case err := <-ended:
			over = true
			h.End(d.wait, d.deliver)
			if failed != nil {
				panic(failed)
			}
			if err == nil && gaveWay {
				return sampler.ErrGaveWay
			}
			return err
		}
	}
}
