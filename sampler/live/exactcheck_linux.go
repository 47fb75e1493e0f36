package live

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// TryExact returns why exact mode cannot run on this machine, or nil. To find out, it puts a probe into ddtop itself.
// untried also allows a type of processor on which exact mode was never tested.
func TryExact(untried bool) error { return probe.Try(untried) }

// CheckExact returns why exact mode cannot follow the process, without putting a probe into it. It returns the same
// errors as Exact.
func (s *Source) CheckExact(ctx context.Context) error {
	s.exact.mu.Lock()
	defer s.exact.mu.Unlock()
	return s.exact.opening.Do(ctx, func() error {
		_, code, err := s.exactPlaces(ctx, false)
		return errors.Join(err, code.Close())
	}, nil)
}
