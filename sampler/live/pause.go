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

// PauseLimit is for how long the target stands still at most for one sample. What has not been read by then is read while
// it runs, and the sample counts as cut.
const PauseLimit = 5 * time.Millisecond

// pauseRest is how many times as long as it stood still the target then runs at least before it is stopped again: a tenth of
// its time is the most that it loses, however many threads it has and whatever rate was asked for.
const pauseRest = 9

// pauses stops the target while its stacks are read.
type pauses struct {
	pauser *attach.Pauser
	reader interface {
		Read(sampler.Depth, *sampler.Sample) error
		Reads() *sampler.Reads
	}
	// sample is what read fills, err what it returned.
	sample *sampler.Sample
	err    error
	read   func()
	// cut says that the last pause does not show one instant of all threads.
	cut bool
	// restNS is until when the target is not stopped again, CLOCK_MONOTONIC in ns.
	restNS int64
}

// ErrPauseLimit: ddtop can't promise how long a stop for a sample lasts, because its own CPU time has a limit.
var ErrPauseLimit = errors.New("--pause is refused: ddtop's own CPU time has a limit")

// checkPause refuses stops where the kernel may keep ddtop from running, by the CPU limit of its own cgroup, between a stop and the end of
// it: the process would stay stopped for the rest of the period.
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

// stacks reads all stacks while the target stands still. The clock for it runs from the first thread's stop, so what is
// new to the reader, and takes long, should have been read before.
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

// readTick reads a sample of the given depth, with the target stopped where that was asked for. Lock ticks never stop it.
func (s *sampling) readTick(depth sampler.Depth, sample *sampler.Sample) error {
	sample.PauseNS = 0
	if s.pauses != nil && depth == sampler.StackTick {
		return s.pauses.stacks(sample)
	}
	return s.reader.Read(depth, sample)
}

// rests is until when no stacks may be read, because the target has just been stopped for them; CLOCK_MONOTONIC in ns.
func (s *sampling) rests() int64 {
	if s.pauses == nil {
		return 0
	}
	return s.pauses.restNS
}

// warmUp reads everything once without a stop where stops are to follow, so that these need not wait for names to be read.
func (s *sampling) warmUp() {
	if s.pauses != nil {
		s.learnCalls()
	}
}

// learnCalls reads everything and asks the kernel about all threads: one that has been stopped is seen on its way back
// into its system call for a moment, and its call may have the name restart_syscall ever after.
func (s *sampling) learnCalls() {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	var sample sampler.Sample
	if s.reader.Read(sampler.StackTick, &sample) == nil { // else the first pause takes longer
		s.view.Fill(&sample, true)
	}
}
