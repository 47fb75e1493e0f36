package live

import (
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/kernel"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// PauseLimit limits how long the target is stopped for one sample. Stacks that are not read by then are read while the
// target runs.
const PauseLimit = 5 * time.Millisecond

// pauseRest limits how often the target is stopped. After a pause, the target must run for pauseRest times the length
// of the pause. So pauses take at most a tenth of the time.
const pauseRest = 9

// pauses stops the target while ddtop reads the target's stacks.
type pauses struct {
	pauser *attach.Pauser
	reader interface {
		Read(sampler.Depth, *sampler.Sample) error
		Reads() *sampler.Reads
	}
	// sample is the sample that the function read fills, and err is this function's error.
	sample *sampler.Sample
	err    error
	read   func()
	// cut is true if the last pause ended before all threads were read. The stacks then show different moments.
	cut bool
	// restNS is the earliest time at which the target may be stopped again, CLOCK_MONOTONIC in ns.
	restNS int64
}

// ErrPauseLimit means that --pause is refused: ddtop's own CPU time has a limit, which could make a stop too long.
var ErrPauseLimit = errors.New("--pause is refused: ddtop's own CPU time has a limit")

// checkPause returns an error if ddtop's cgroup has a CPU limit. With such a limit, ddtop could lose its CPU while the
// target is stopped.
func checkPause() error {
	l, limited := kernel.OwnCPULimit()
	if !limited {
		return nil
	}
	return fmt.Errorf("%w: %s in each %s (%s), and when that is used up within a stop the process stands still for up to %s more. "+
		"Go on without --pause, or start ddtop outside of that cgroup", ErrPauseLimit, l.Quota, l.Period, l.File, l.Period)
}

func newPauses(p *attach.Process, s *Source) (*pauses, error) {
	if err := checkPause(); err != nil {
		return nil, err
	}
	pauser, err := p.NewPauser(PauseLimit, pace.RaisePriority)
	if err != nil {
		return nil, err
	}
	z := &pauses{pauser: pauser, reader: s.reader}
	z.read = func() { z.err = z.reader.Read(sampler.StackTick, z.sample) }
	return z, nil
}

// stacks reads all stacks while the target is stopped. The stop is short if the names of the code are already known
// (warmUp).
func (z *pauses) stacks(sample *sampler.Sample) error {
	z.sample = sample
	pause, err := z.pauser.Pause(z.read)
	z.sample, z.cut = nil, pause.Cut
	z.restNS = pace.Monotonic() + pauseRest*pause.NS
	if err != nil {
		return err
	}
	if z.err != nil {
		return z.err
	}
	reads := z.reader.Reads()
	reads.Pauses++
	if pause.Cut {
		reads.PausesCut++
	}
	reads.PausedNS += uint64(pause.NS)
	sample.PauseNS = pause.NS
	sample.Reads.Pauses, sample.Reads.PausesCut, sample.Reads.PausedNS = reads.Pauses, reads.PausesCut, reads.PausedNS
	return nil
}

// readTick reads a sample. It stops the target only if Options.Pause is set, and then only for stack ticks.
func (s *sampling) readTick(depth sampler.Depth, sample *sampler.Sample) error {
	sample.PauseNS = 0
	if s.pauses != nil && depth == sampler.StackTick {
		return s.pauses.stacks(sample)
	}
	return s.reader.Read(depth, sample)
}

// rests returns the earliest time at which the target may be stopped again to read stacks, CLOCK_MONOTONIC in ns.
func (s *sampling) rests() int64 {
	if s.pauses == nil {
		return 0
	}
	return s.pauses.restNS
}

// warmUp reads all stacks once if the target will be stopped later. This finds the names of code in advance, so that
// the first stop is short.
func (s *sampling) warmUp() {
	if s.pauses != nil {
		s.learnCalls()
	}
}

// learnCalls reads all stacks and system calls once, before the target is first stopped. After a stop, the kernel can
// report restart_syscall in place of the system call that was interrupted.
func (s *sampling) learnCalls() {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	var sample sampler.Sample
	if s.reader.Read(sampler.StackTick, &sample) == nil { // if this fails, the first pause takes longer
		s.view.Fill(&sample, true)
	}
}
