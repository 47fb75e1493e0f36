package live

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// TryExact says why exact mode cannot run on this machine. It puts a probe into ddtop itself. untried also allows an
// untried processor.
func TryExact(untried bool) error { return probe.Try(untried) }

// CheckExact returns why exact mode cannot follow the process, without putting anything into it. Errors are those of
// Exact.
func (s *Source) CheckExact(ctx context.Context) error {
	s.exact.mu.Lock()
	defer s.exact.mu.Unlock()
	return s.exact.opening.Do(ctx, func() error {
		_, code, err := s.exactPlaces(ctx, false)
		return errors.Join(err, code.Close())
	}, nil)
}
