//go:build !linux

package attach

import "time"

// Pauser stops all threads of a process for a moment: on Linux only.
type Pauser struct{ pid int }

// NewPauser fails with ErrLinuxOnly.
func (p *Process) NewPauser(time.Duration, func()) (*Pauser, error) { return nil, linuxOnly(p.pid) }

// Pause fails with ErrLinuxOnly.
func (z *Pauser) Pause(func()) (Pause, error) { return Pause{}, linuxOnly(z.pid) }

// Thread returns 0.
func (z *Pauser) Thread() int { return 0 }

// Close does nothing.
func (z *Pauser) Close() {}
