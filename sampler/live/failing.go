package live

import (
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

const (
	// failedRestNS is the shortest time between two ticks, in ns, after all ticks have failed for pace.FailingAfterNS.
	// A failed tick costs as much as a good one, so failing ticks must be rare.
	failedRestNS = 100e6
	// refusedForNS is a time in ns. If the kernel refuses all reads for this time, Run stops although the process
	// lives. Other failures can be temporary, so Run does not stop after them.
	refusedForNS = 10e9
)

// errNoMemory is the error if a process lives, but none of its threads has memory (attach.ErrGone).
var errNoMemory = errors.New("none of its threads has memory: it is about to end, or to run another program")

// Failing returns since when all reads have failed, and why. If reads have failed for less than a second, err is nil.
func (s *sampling) Failing() (sinceNS int64, err error) { return s.failing.Lasting() }

// retry notes that a tick failed. It returns an error if Run must stop.
func (s *sampling) retry(c *pace.Clock, now int64, err error) error {
	if errors.Is(err, attach.ErrGone) { // the process lives, as gone has checked
		err = errNoMemory
	}
	since := s.failing.Failed(now, err)
	switch lasted := now - since; {
	case lasted >= refusedForNS && errors.Is(err, attach.ErrPermission):
		return fmt.Errorf("all reads have failed since %s: %w", s.info.WallTime(since).Format(time.TimeOnly), err)
	case lasted >= pace.FailingAfterNS:
		c.Wait(now + failedRestNS)
	}
	return nil
}

// Silent returns how long the current tick has lasted. If memory or the kernel hangs, this time keeps growing.
func (s *sampling) Silent() time.Duration {
	if began := s.tickBegan.Load(); began != 0 {
		return time.Duration(pace.Monotonic() - began)
	}
	return 0
}

// NoAnswer returns an attach.ErrNoAnswer for a read of the process pid that hangs. err is the reason why ddtop stops
// waiting, or nil.
func NoAnswer(pid int, err error) error { return apart.NoAnswer(pid, err) }
