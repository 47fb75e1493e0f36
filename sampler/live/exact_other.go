//go:build !linux

package live

import (
	"context"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

// exactRun is never made: it works on Linux only.
type exactRun struct{ done chan struct{} }

func (*Source) openExact(context.Context, ExactOptions) (*exactRun, error) {
	return nil, attach.ErrLinuxOnly
}

func (*exactRun) on() bool                           { return false }
func (*exactRun) look()                              {}
func (*exactRun) behind(int64) int64                 { return 0 }
func (*exactRun) fill(*sampler.Sample, *exact.List)  {}
func (*exactRun) endWith(string)                     {}
func (*exactRun) nameStacks()                        {}
func (*exactRun) withoutClock()                      {}
func (*exactRun) status() (none sampler.ExactStatus) { return none }
func (*exactRun) close() (ExactReport, error)        { return ExactReport{}, nil }

// TryExact fails: it works on Linux only.
func TryExact(bool) error { return attach.ErrLinuxOnly }

// CheckExact fails: it works on Linux only.
func (s *Source) CheckExact(context.Context) error { return attach.ErrLinuxOnly }
