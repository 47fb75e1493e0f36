//go:build !linux

package live

import (
	"context"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

// Exact follows the GVL of a process.
type Exact struct{}

// OpenExact fails: it works on Linux only.
func (s *Source) OpenExact(context.Context, ExactOptions) (*Exact, error) {
	return nil, attach.ErrLinuxOnly
}

// Saw does nothing.
func (*Exact) Saw(*sampler.Sample) {}

// Done returns nil.
func (*Exact) Done() <-chan struct{} { return nil }

// Close does nothing.
func (*Exact) Close() (ExactReport, error) { return ExactReport{}, nil }
