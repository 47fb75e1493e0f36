package live

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/kernel/moves"
	"github.com/ddtop/ddtop/sampler/ruby"
)

// From names the source from which ddtop learns what threads do (`--source`).
type From string

const (
	// FromAuto means FromSwitches if the machine allows it and Options.Pause is not set, and else FromPolling.
	FromAuto From = "auto"
	// FromSwitches follows thread switches soon after the first sample. If this fails, ddtop polls (see SwitchStatus).
	FromSwitches From = "switches"
	// FromMoved uses the kernel's reports of threads that get or lose a CPU. Between these reports, ddtop reads the
	// GVL. It needs no privilege for processes of the same user. If it fails, ddtop polls, as with FromSwitches.
	FromMoved From = "moved"
	// FromPolling means that ddtop reads the target's memory again and again. The zero value of From means the same.
	FromPolling From = "polling"
)

// switchTries is how many times ddtop tries to follow a process by its thread switches. switchAgain is the pause
// between two tries.
const (
	switchTries = 3
	switchAgain = 2 * time.Second
)

// errPauses means that the process cannot be followed because --pause stops it for samples. The records of thread
// switches would contain these stops.
var errPauses = errors.New("the process is stopped for samples (--pause)")

// errSwitches means that Ruby's threads share native threads, so that the kernel cannot tell them apart.
var errSwitches = errors.New("its threads cannot be followed one by one")

// errLateSwitches means that ddtop stopped before it could begin to follow the process.
var errLateSwitches = errors.New("following its threads had not begun when ddtop stopped. On a full machine this takes seconds")

// notFollowed returns the error of Switches. If ddtop stopped before it could follow the process, the error says only
// this. It does not say how the attempt failed.
func notFollowed(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, attach.ErrNoAnswer)) {
		return errLateSwitches
	}
	return err
}

// ParseFrom returns the From whose name is text.
func ParseFrom(text string) (From, error) {
	switch f := From(text); f {
	case FromAuto, FromSwitches, FromMoved, FromPolling:
		return f, nil
	}
	return "", fmt.Errorf("%q is not one of auto, switches, moved and polling", text)
}

// followed reports whether the user has chosen a source in which the kernel reports on threads.
func (f From) followed() bool { return f == FromSwitches || f == FromMoved }

// check returns an error if the user wants FromSwitches and the machine does not allow it.
func (f From) check() error {
	if f != FromSwitches {
		return nil
	}
	if err := MaySwitch(); err != nil {
		return fmt.Errorf("thread switches: %w", err)
	}
	return nil
}

// startSwitches begins to follow thread switches if Options.From requests this. The returned function stops following.
func (s *Source) startSwitches(ctx context.Context) (end func()) {
	m := &s.switches
	switch {
	case m.from.followed():
	case m.from == FromAuto:
		err := MaySwitch()
		if s.pauses != nil {
			err = errPauses
		}
		if err != nil {
			m.refused(err)
			return func() {}
		}
	default:
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range switchTries {
			err := s.Switches(ctx)
			m.refused(notFollowed(ctx, err))
			if err == nil {
				s.followAgain(ctx)
				return
			}
			if ctx.Err() != nil || errors.Is(err, errSwitches) || errors.Is(err, ruby.ErrNoScheduler) || errors.Is(err, attach.ErrGone) ||
				errors.Is(err, moves.Err) {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(switchAgain):
			}
		}
	}()
	return func() {
		stop()
		<-done
		_, _ = s.EndSwitches() // SwitchStatus reports the error
	}
}

// followAgain follows a process again after its threads had switched too often, once they switch rarely enough. It ends
// with ctx.
func (s *Source) followAgain(ctx context.Context) {
	tick := time.NewTicker(switchAgain)
	defer tick.Stop()
	var again followAgain
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if x := s.switches.now.Load(); x != nil && x.again(&again) {
				_ = s.Switches(ctx) // after an error, SwitchStatus still reports why following ended before
			}
		}
	}
}

// refused notes why the process is not followed by thread switches. If it is followed, err is nil.
func (m *switchMode) refused(err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	m.why.Store(&why)
}

// parkSwitches ends following until resume is called. A ddtop that is stopped by a signal cannot fetch records.
func (s *Source) parkSwitches() (resume func()) {
	m := &s.switches
	on, ok := m.park()
	if !ok {
		return func() {}
	}
	return func() {
		m.mu.Unlock()
		if on {
			go func() { m.refused(s.Switches(context.Background())) }()
		}
	}
}
