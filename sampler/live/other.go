//go:build !linux

package live

import (
	"context"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// exactRun is one run of exact mode. No run is ever made, because exact mode works on Linux only.
type exactRun struct{}

func (*Source) openExact(context.Context, ExactOptions) (*exactRun, error) {
	return nil, attach.ErrLinuxOnly
}

func (*exactRun) on() bool                           { return false }
func (*exactRun) look()                              {}
func (*exactRun) behind(int64) int64                 { return 0 }
func (*exactRun) fill(*sampler.Sample, *exact.List)  {}
func (*exactRun) end(string)                         {}
func (*exactRun) stop() error                        { return nil }
func (*exactRun) nameStacks()                        {}
func (*exactRun) withoutClock()                      {}
func (*exactRun) status() (none sampler.ExactStatus) { return none }
func (*exactRun) close() (ExactReport, error)        { return ExactReport{}, nil }

// TryExact returns an error, because exact mode works on Linux only.
func TryExact(bool) error { return attach.ErrLinuxOnly }

// CheckExact returns an error, because exact mode works on Linux only.
func (s *Source) CheckExact(context.Context) error { return attach.ErrLinuxOnly }

// fetcher does nothing on this system.
type fetcher struct{}

var fetching fetcher

func (fetcher) is() bool { return false }

// switchRun is for following thread switches. No switchRun is ever made, because this works on Linux only.
type switchRun struct{}

func (*Source) openSwitches(context.Context) (*switchRun, error) {
	return nil, attach.ErrLinuxOnly
}

func (*switchRun) served() bool                                           { return false }
func (*switchRun) glances() bool                                          { return false }
func (*switchRun) catchUp()                                               {}
func (*switchRun) glance() bool                                           { return false }
func (*switchRun) on() bool                                               { return false }
func (*switchRun) whoMoved(w []ruby.Entered) (ruby.Moves, []ruby.Entered) { return nil, w }
func (*switchRun) again(*followAgain) bool                                { return false }
func (*switchRun) sampled(*sampler.Sample)                                {}
func (*switchRun) look()                                                  {}
func (*switchRun) behind(int64) int64                                     { return 0 }
func (*switchRun) fill(*sampler.Sample, *exact.List, bool)                {}
func (*switchRun) ring(*pace.Sleeper, *pace.Bells) bool                   { return false }
func (*switchRun) still(int64) bool                                       { return false }
func (*switchRun) unnamed() bool                                          { return false }
func (*switchRun) nameStacks()                                            {}
func (*switchRun) withoutClock()                                          {}
func (*switchRun) end(string)                                             {}
func (*switchRun) findRequests(*pace.Meter)                               {}
func (*switchRun) stop() error                                            { return nil }
func (*switchRun) status() (none sampler.SwitchStatus)                    { return none }
func (*switchRun) close() (SwitchReport, error)                           { return SwitchReport{}, nil }

// runningRun is for C stacks of running threads. None is ever made, because this works on Linux only.
type runningRun struct{}

func openRunning(context.Context, *Source) (*runningRun, error) {
	return nil, attach.ErrLinuxOnly
}

// Asks is for following calls for memory. None is ever made, because this works on Linux only.
type Asks struct{}

// FollowAsks returns an error, because following calls for memory works on Linux only.
func FollowAsks(context.Context, *Source) (x Asks, err error) { return x, attach.ErrLinuxOnly }

// Stop and Asked do nothing: an Asks is never made, because following calls for memory works on Linux only.
func (Asks) Stop() error                { return nil }
func (Asks) Asked() *sampler.MemoryAsks { return nil }

func (*runningRun) on() bool                          { return false }
func (*runningRun) end(string)                        {}
func (*runningRun) stop() error                       { return nil }
func (*runningRun) NameStacks()                       {}
func (*runningRun) Fill(*sampler.Sample, *exact.List) {}

// MayRun returns an error, because C stacks of running threads can be taken on Linux only.
func MayRun() error { return attach.ErrLinuxOnly }

// CheckNative returns two errors, because native stacks can be read on Linux only.
func CheckNative() (running, registers error) { return attach.ErrLinuxOnly, attach.ErrLinuxOnly }

// MaySwitch returns an error, because thread switches can be followed on Linux only.
func MaySwitch() error { return attach.ErrLinuxOnly }

// CheckSwitches returns an error, because thread switches can be followed on Linux only.
func CheckSwitches() error { return attach.ErrLinuxOnly }
