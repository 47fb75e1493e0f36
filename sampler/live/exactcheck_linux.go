package live

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// TryExact returns nil if exact mode can run on this machine, and otherwise the reason. To find out, it puts a probe
// into ddtop itself. untried also allows a type of processor on which exact mode was never tested.
func TryExact(untried bool) error { return probe.Try(untried) }

// CheckExact returns nil if exact mode can follow the process, and otherwise the error that Exact would return. It does
// not put a probe into the process.
func (s *Source) CheckExact(ctx context.Context) error {
	s.exact.mu.Lock()
	defer s.exact.mu.Unlock()
	return s.exact.opening.Do(ctx, func() error {
		_, code, err := s.exactPlaces(ctx, false)
		return errors.Join(err, code.Close())
	}, nil)
}
