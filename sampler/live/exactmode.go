package live

import (
	"context"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
)

// exactMode switches exact mode on and off. In exact mode, samples carry all changes of the GVL.
type exactMode struct {
	mode[exactRun, *exactRun]
	// options are the options with which exact mode was last switched on.
	options ExactOptions
	// moreNS is the time until which TakeMore lets probes cost more (sampler.MoreExactCost), CLOCK_MONOTONIC in ns.
	moreNS atomic.Int64
}

// Exact puts probes into the process. They stay there until EndExact is called or a limit is reached (ExactStatus).
// Meanwhile samples have Changes, and all ticks come at the rate for stacks. Any goroutine may call Exact, even if Run
// does not run. Errors are ErrExact, ruby.ErrNoScheduler, errors of package probe and errors of reading.
func (s *Source) Exact(ctx context.Context, o ExactOptions) error {
	return s.exact.begin(ctx, s.info.PID, "exact mode", "exact mode is on", s.exactWith(o))
}

// exactWith returns a function that inserts the probes and, if this succeeds, keeps o. The caller of the returned
// function must hold exact.mu.
func (s *Source) exactWith(o ExactOptions) func(context.Context) (*exactRun, error) {
	return func(ctx context.Context) (*exactRun, error) {
		x, err := s.openExact(ctx, o)
		if err == nil {
			s.exact.options = o
		}
		return x, err
	}
}

// parkExact removes the probes. The function resume inserts them again. This is for a ddtop that ctrl-z stops, because
// a stopped ddtop could not check the cost of the probes.
func (s *Source) parkExact() (resume func()) {
	m := &s.exact
	on, ok := m.park()
	if !ok {
		return func() {}
	}
	return func() {
		defer m.mu.Unlock()
		if on && !m.closed {
			_ = m.start(context.Background(), s.exactWith(m.options))
		}
	}
}

// EndExact removes the probes, in some tenths of a second. If exact mode was never on, the report is empty.
func (s *Source) EndExact() (ExactReport, error) {
	s.exact.mu.Lock()
	defer s.exact.mu.Unlock()
	if x := s.exact.now.Load(); x != nil {
		return x.close()
	}
	return ExactReport{}, nil
}

// ExactStatus returns the state of exact mode, such as whether it is on. Any goroutine may call it.
func (s *Source) ExactStatus() sampler.ExactStatus {
	if x := s.exact.now.Load(); x != nil {
		return x.status()
	}
	return sampler.ExactStatus{}
}
