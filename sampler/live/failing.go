package live

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

const (
	// failingAfterNS is how long ticks must fail before Failing reports it, in ns. A list of threads that changes
	// often makes some ticks fail.
	failingAfterNS = 1e9
	// failedRestNS is the least time between two ticks then, because each costs as much as one that succeeds.
	failedRestNS = 100e6
	// refusedForNS is how long the kernel must refuse all reads before Run gives up a living process, in ns. Other
	// failures can be temporary.
	refusedForNS = 10e9
)

// failing keeps for how long all ticks have failed. Its methods may be called from any goroutine.
type failing struct {
	mu sync.Mutex
	// the first failed tick since the last success, CLOCK_MONOTONIC in ns; zero if the last one succeeded
	sinceNS int64
	err     error
}

// failed notes a tick that failed, and returns since when all have.
func (f *failing) failed(nowNS int64, err error) (sinceNS int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sinceNS == 0 {
		f.sinceNS = nowNS
	}
	f.err = err
	return f.sinceNS
}

func (f *failing) succeeded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sinceNS, f.err = 0, nil
}

// errNoMemory is the failure of a tick of a process that has not ended.
var errNoMemory = errors.New("none of its threads has memory: it is about to end, or to run another program")

// Failing says since when no sample could be read, and why. err is nil until reads have failed for a second.
func (s *sampling) Failing() (sinceNS int64, err error) {
	s.failing.mu.Lock()
	defer s.failing.mu.Unlock()
	if s.failing.sinceNS == 0 || pace.Monotonic()-s.failing.sinceNS < failingAfterNS {
		return 0, nil
	}
	return s.failing.sinceNS, s.failing.err
}

// retry notes a failed tick, and decides whether Run gives up.
func (s *sampling) retry(c *pace.Clock, now int64, err error) error {
	if errors.Is(err, attach.ErrGone) { // but it lives
		err = errNoMemory
	}
	since := s.failing.failed(now, err)
	switch lasted := now - since; {
	case lasted >= refusedForNS && errors.Is(err, attach.ErrPermission):
		return fmt.Errorf("all reads have failed since %s: %w", s.info.WallTime(since).Format(time.TimeOnly), err)
	case lasted >= failingAfterNS:
		c.Wait(now + failedRestNS)
	}
	return nil
}

// Silent is how long the current tick has lasted. It is long if the target's memory or the kernel does not answer.
func (s *sampling) Silent() time.Duration {
	if began := s.tickBegan.Load(); began != 0 {
		return time.Duration(pace.Monotonic() - began)
	}
	return 0
}

// NoAnswer returns an attach.ErrNoAnswer for a question that was not answered. err says why ddtop stops waiting, or is
// nil.
func NoAnswer(pid int, err error) error { return apart.NoAnswer(pid, err) }
