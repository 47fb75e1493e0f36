package exact

import (
	"context"
	"errors"

	"github.com/ddtop/ddtop/sampler"
)

// Switch lets the screen switch exact mode on and off for its process.
type Switch struct {
	Src   Source
	Flags Flags
	// Paused is true with --pause, which stops the process while ddtop reads its stacks.
	Paused bool
}

// errPaused is returned if the user presses the key for exact mode while --pause is on.
var errPaused = errors.New("exact mode would also measure the stops that --pause causes. Start ddtop without --pause")

// Exact puts the probes into the process.
func (s *Switch) Exact(ctx context.Context) error {
	if s.Paused {
		return errPaused
	}
	return s.Src.Exact(ctx, s.Flags.options())
}

// EndExact removes the probes from the process.
func (s *Switch) EndExact() error {
	_, err := s.Src.EndExact()
	return err
}

// SwitchStatus returns whether ddtop follows the process by the kernel's thread switches, and why it does or does not.
func (s *Switch) SwitchStatus() sampler.SwitchStatus {
	if from, ok := s.Src.(SwitchSource); ok {
		return from.SwitchStatus()
	}
	return sampler.SwitchStatus{}
}

// ExactStatus returns the state of exact mode.
func (s *Switch) ExactStatus() sampler.ExactStatus { return s.Src.ExactStatus() }

// SwitchSource is a process that ddtop can follow by the kernel's thread switches. *live.Source implements it.
type SwitchSource interface{ SwitchStatus() sampler.SwitchStatus }
