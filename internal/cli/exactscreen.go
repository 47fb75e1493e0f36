package cli

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/sampler"
)

// exactSwitch is how the screen switches exact mode of its process on and off.
type exactSwitch struct {
	src   exactSource
	flags exactFlags
	// paused: the process is stopped while stacks are read.
	paused bool
}

// exactSwitch returns the switch for a process.
func (t *target) exactSwitch(src exactSource) *exactSwitch {
	return &exactSwitch{src: src, flags: t.exact, paused: t.pause}
}

// errPaused: exact mode was asked for by a key.
var errPaused = errors.New("--pause stops the process again and again, which would be in all that exact mode says: start ddtop without it")

// Exact puts the probes in.
func (s *exactSwitch) Exact(ctx context.Context) error {
	if s.paused {
		return errPaused
	}
	return s.src.Exact(ctx, s.flags.options())
}

// EndExact takes them out.
func (s *exactSwitch) EndExact() error {
	_, err := s.src.EndExact()
	return err
}

// SwitchStatus says how following by thread switches stands.
func (s *exactSwitch) SwitchStatus() sampler.SwitchStatus {
	if from, ok := s.src.(switchSource); ok {
		return from.SwitchStatus()
	}
	return sampler.SwitchStatus{}
}

// ExactStatus says how exact mode stands.
func (s *exactSwitch) ExactStatus() sampler.ExactStatus { return s.src.ExactStatus() }
