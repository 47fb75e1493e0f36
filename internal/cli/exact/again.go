package exact

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// exactRest is how long ddtop waits after exact mode has ended itself, before it begins exact mode again. Each
	// later pause is twice as long, but at most exactRestMost. If exact mode was on for exactRestMost before it ended,
	// the next pause is exactRest again.
	exactRest     = time.Minute
	exactRestMost = time.Hour
	// exactLook is how often ddtop checks whether exact mode has ended itself.
	exactLook = time.Second
)

// exactAgain begins exact mode again in a process that ddtop follows for days. Exact mode ends itself if it costs too
// much, but the reason for the cost may disappear later. exactAgain gives up if the results cannot be trusted, or if
// exact mode has become impossible.
type exactAgain struct {
	src   Source
	flags *Flags
	// say reports what happened to exact mode, and why. If exact mode ends itself repeatedly, say reports only the
	// first end. It reports a later end only if exact mode was on for exactRestMost before.
	say func(what, why string)

	mu    sync.Mutex
	rest  time.Duration // the length of the next pause
	since time.Time     // when exact mode was first seen on
	until time.Time     // when the pause ends; zero if there is none
	said  bool
	over  bool // true if exact mode must not begin again
}

// step checks at the time now whether exact mode has ended or can begin again.
func (a *exactAgain) step(ctx context.Context, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return
	}
	s := a.src.ExactStatus()
	switch {
	case s.On:
		if a.since.IsZero() {
			a.since = now
		}
		if now.Sub(a.since) >= exactRestMost {
			a.rest, a.said = exactRest, false
		}
	case s.Wrong:
		a.over = true
		a.say("exact mode was ended and is not tried again", s.Ended)
	case s.Ended == "" || s.WithTarget:
	case a.until.IsZero():
		a.rest = max(a.rest, exactRest)
		a.until = now.Add(a.rest)
		if !a.said {
			a.said = true
			a.say(fmt.Sprintf("exact mode ended itself; it is tried again in %v, and each time after twice as long, up to %v", a.rest, exactRestMost), s.Ended)
		}
		a.rest = min(2*a.rest, exactRestMost)
	case !now.Before(a.until):
		a.until, a.since = time.Time{}, time.Time{}
		if err := a.flags.Begin(ctx, a.src); err != nil && ctx.Err() == nil {
			a.over = true
			a.say("exact mode can't be had any more", err.Error())
		}
	}
}

// leave ends exact mode for good.
func (a *exactAgain) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
}

// resting returns until when exact mode pauses, and why it has ended. Both results are zero if exact mode is on, or if
// it will not begin again.
func (a *exactAgain) resting() (until time.Time, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.until.IsZero() {
		return time.Time{}, ""
	}
	return a.until, a.src.ExactStatus().Ended
}
