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
	// failedRestNS is the least time between two ticks, in ns, once ticks have failed for pace.FailingAfterNS. A
	// failing tick costs as much as one that succeeds.
	failedRestNS = 100e6
	// refusedForNS is how long the kernel must refuse all reads before Run gives up a living process, in ns. It does
	// not give up after other failures, which can be temporary.
	refusedForNS = 10e9
)

// errNoMemory is the error if the process has not ended, but none of its threads has memory (attach.ErrGone).
var errNoMemory = errors.New("none of its threads has memory: it is about to end, or to run another program")

// Failing returns since when no sample could be read, and why. err is nil until reads have failed for a second.
func (s *sampling) Failing() (sinceNS int64, err error) { return s.failing.Lasting() }

// retry notes a failed tick, and decides whether Run gives up.
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

// Silent returns how long the current tick has lasted. It keeps growing if the target's memory or the kernel hangs.
func (s *sampling) Silent() time.Duration {
	if began := s.tickBegan.Load(); began != 0 {
		return time.Duration(pace.Monotonic() - began)
	}
	return 0
}

// NoAnswer returns an attach.ErrNoAnswer for a read that hangs. err is why ddtop stops waiting for it, or nil.
func NoAnswer(pid int, err error) error { return apart.NoAnswer(pid, err) }
