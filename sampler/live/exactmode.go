package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// exactMode is whether the changes of the GVL are followed for samples.
type exactMode struct {
	// now is who follows them, or did last; nil: nobody has.
	now atomic.Pointer[exactRun]
	// opening is where probes are put in. mu guards switching on and off, and closed: it is over for good.
	opening lane
	mu      sync.Mutex
	closed  bool
	// closing is closed before mu is taken for that: who is just putting probes in gives up.
	closing   chan struct{}
	closeOnce sync.Once
	// options are those it was switched on with last.
	options ExactOptions
}

// is reports whether it is on. It is cheap.
func (m *exactMode) is() bool {
	x := m.now.Load()
	return x != nil && x.on()
}

// over ends it, because the target has ended.
func (m *exactMode) over(why string) {
	if x := m.now.Load(); x != nil {
		x.endWith(why)
	}
}

// close ends it for good, and calls then when nothing more is done of it.
func (m *exactMode) close(then func() error) error {
	m.closeOnce.Do(func() { close(m.closing) })
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	return m.opening.close(func() error {
		var err error
		if x := m.now.Load(); x != nil {
			_, err = x.close()
		}
		return errors.Join(err, then())
	})
}

// Exact puts probes into the process: until EndExact, or until one of the limits is reached (ExactStatus), samples carry Changes, and
// all is read at the stack rate, where the scheduler is otherwise read at the lock rate. It is for any goroutine, before and while Run
// runs, and after it has ended again. The error is ErrExact, ruby.ErrNoScheduler, one of package probe, or that of reading.
func (s *Source) Exact(ctx context.Context, o ExactOptions) error {
	m := &s.exact
	m.mu.Lock()
	defer m.mu.Unlock()
	switch x := m.now.Load(); {
	case m.closed:
		return fmt.Errorf("process %d: exact mode: it is not read any more", s.info.PID)
	case x != nil && x.on():
		return fmt.Errorf("process %d: exact mode is on already", s.info.PID)
	case x != nil:
		<-x.done // its probes are being taken out
	}
	return s.switchOn(ctx, o)
}

// switchOn is Exact for who holds mu, of a process that is not followed.
func (s *Source) switchOn(ctx context.Context, o ExactOptions) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-s.exact.closing:
			stop()
		case <-ctx.Done():
		}
	}()
	x, err := s.openExact(ctx, o)
	if err == nil {
		s.exact.options = o
		s.exact.now.Store(x)
	}
	return err
}

// parkPatience is how long parkExact waits for probes that are being put in, or taken out.
const parkPatience = 30 * time.Second

// parkExact takes the probes out of the process until resume is called, and has nobody put any in until then: nobody would look at what
// they cost while ddtop is stopped. Those that are just being put in are waited for, for they are in the process already; so are those
// of an exact mode that has just ended by itself. Where they can't be put in again exact mode stays off.
func (s *Source) parkExact() (resume func()) {
	m := &s.exact
	for deadline := time.Now().Add(parkPatience); !m.mu.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return func() {} // the process's memory does not answer
		}
	}
	on := m.is()
	if x := m.now.Load(); x != nil {
		_, _ = x.close() // its error is told again by who ends it
	}
	return func() {
		defer m.mu.Unlock()
		if on && !m.closed {
			_ = s.switchOn(context.Background(), m.options)
		}
	}
}

// EndExact takes the probes out, which takes some tenths of a second, and says how it went. Where exact mode has ended by itself it says how
// that went; where it never was on the report is empty.
func (s *Source) EndExact() (ExactReport, error) {
	s.exact.mu.Lock()
	defer s.exact.mu.Unlock()
	if x := s.exact.now.Load(); x != nil {
		return x.close()
	}
	return ExactReport{}, nil
}

// ExactStatus says how exact mode stands. It is for any goroutine.
func (s *Source) ExactStatus() sampler.ExactStatus {
	if x := s.exact.now.Load(); x != nil {
		return x.status()
	}
	return sampler.ExactStatus{}
}
