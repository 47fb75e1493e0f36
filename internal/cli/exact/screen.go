package exact

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/sampler"
)

// Switch lets the screen switch exact mode of its process on and off.
type Switch struct {
	Src   Source
	Flags Flags
	// paused: the process is stopped while stacks are read.
	Paused bool
}

// errPaused is returned if a key asks for exact mode while --pause is in force.
var errPaused = errors.New("--pause stops the process again and again, which would be in all that exact mode says: start ddtop without it")

// Exact puts the probes in.
func (s *Switch) Exact(ctx context.Context) error {
	if s.Paused {
		return errPaused
	}
	return s.Src.Exact(ctx, s.Flags.options())
}

// EndExact removes the probes.
func (s *Switch) EndExact() error {
	_, err := s.Src.EndExact()
	return err
}

// SwitchStatus returns the state of following by thread switches.
func (s *Switch) SwitchStatus() sampler.SwitchStatus {
	if from, ok := s.Src.(SwitchSource); ok {
		return from.SwitchStatus()
	}
	return sampler.SwitchStatus{}
}

// ExactStatus returns the state of exact mode.
func (s *Switch) ExactStatus() sampler.ExactStatus { return s.Src.ExactStatus() }

// SwitchSource is a process that can be followed by its thread switches: a *live.Source.
type SwitchSource interface{ SwitchStatus() sampler.SwitchStatus }
