package live

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/sampler/exact/probe"
)

// TryExact says why exact mode can't be on this machine with the rights that ddtop has; nil: a probe could be put into ddtop itself, and
// taken out again. untried: also on a kind of processor on which exact mode has not run yet. The error is one of package probe.
func TryExact(untried bool) error { return probe.Try(untried) }

// CheckExact says why exact mode can't follow the process; nil: nothing speaks against it. Nothing is put into the process. The error is
// that of Exact.
func (s *Source) CheckExact(ctx context.Context) error {
	s.exact.mu.Lock()
	defer s.exact.mu.Unlock()
	return s.exact.opening.apart(ctx, func() error {
		_, code, err := s.exactPlaces(ctx, false)
		return errors.Join(err, code.Close())
	}, nil)
}
