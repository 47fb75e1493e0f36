package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/sampler/live/internal/apart"
)

// mode switches one way to follow the process on and off. There are three such ways: exact mode, thread switches, and C
// stacks of running threads.
type mode[T any, F follower[T]] struct {
	// now is the present run of the mode, or the last run if the mode is off. It is nil if there was no run.
	now atomic.Pointer[T]
	// opening runs the code that begins to follow the process. mu is held while the mode is switched on or off. It also
	// guards closed, which is true when the mode has ended for good.
	opening apart.Lane
	mu      sync.Mutex
	closed  bool
	// closing cancels a start of the mode, which may hold mu for a long time. So the method close closes this channel
	// before it locks mu.
	closing   chan struct{}
	closeOnce sync.Once
}

// follower is one run of a mode: it follows the process from its beginning to its end.
type follower[T any] interface {
	*T
	on() bool
	// end ends the run. If the run has already ended, it does nothing.
	end(why string)
	// stop ends the run, and waits until all its work is done.
	stop() error
}

// is reports whether the mode is on. It reads only ddtop's own variables, so it never has to wait for the target.
func (m *mode[T, F]) is() bool {
	x := m.now.Load()
	return x != nil && F(x).on()
}

// over ends the mode's run because the target has ended.
func (m *mode[T, F]) over(why string) {
	if x := m.now.Load(); x != nil {
		F(x).end(why)
	}
}

// stop ends the mode's run and waits for its end. The caller holds mu, or has closed the mode.
func (m *mode[T, F]) stop() error {
	if x := m.now.Load(); x != nil {
		return F(x).stop()
	}
	return nil
}

// close switches the mode off for good. When all work of the mode has ended, it calls last.
func (m *mode[T, F]) close(last func() error) error {
	m.closeOnce.Do(func() { close(m.closing) })
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	return m.opening.Close(func() error { return errors.Join(m.stop(), last()) })
}

// begin switches the mode on. If the mode is already on, it returns an error with the text in already.
func (m *mode[T, F]) begin(ctx context.Context, pid int, name, already string, open func(context.Context) (F, error)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return fmt.Errorf("process %d: %s: it is not read any more", pid, name)
	case m.is():
		return fmt.Errorf("process %d: %s already", pid, already)
	}
	_ = m.stop() // an ended run may still be removing its probes
	return m.start(ctx, open)
}

// start switches the mode on, for begin. The caller holds mu. The mode must be off and not closed.
func (m *mode[T, F]) start(ctx context.Context, open func(context.Context) (F, error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-m.closing:
			stop()
		case <-ctx.Done():
		}
	}()
	x, err := open(ctx)
	if err == nil {
		m.now.Store(x)
	}
	return err
}

// parkPatience limits how long park waits while another goroutine switches the mode on or off.
const parkPatience = 30 * time.Second

// park switches the mode off and leaves mu locked, so that the mode stays off until the caller unlocks mu. The result
// on is true if the mode was on. If mu stays locked for parkPatience, for example because a read hangs, park gives up
// and ok is false.
func (m *mode[T, F]) park() (on, ok bool) {
	for deadline := time.Now().Add(parkPatience); !m.mu.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false, false
		}
	}
	on = m.is()
	_ = m.stop() // close returns the error later
	return on, true
}

// Park prepares for a stop of ddtop by a signal (ctrl-z). It removes probes, stops following thread switches, and
// prevents ticks until resume is called. It does not wait for a tick that hangs. Any goroutine may call it.
func (s *Source) Park() (resume func()) {
	resumed := both(s.parkExact(), s.parkSwitches())
	for deadline := time.Now().Add(apart.LetGoAfter); !s.ticking.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return resumed
		}
	}
	return func() {
		s.ticking.Unlock()
		resumed()
	}
}

// both returns a function that calls a and then b.
func both(a, b func()) func() { return func() { a(); b() } }
