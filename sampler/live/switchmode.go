package live

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
)

// SwitchReport says how following a process by thread switches went.
type SwitchReport struct {
	// FromNS and ToNS are between when it was followed, CLOCK_MONOTONIC in ns.
	FromNS, ToNS int64
	// Records is how many intervals on a CPU were recorded, Lost how many had no room, Failed how many words could not be read.
	Records, Lost, Failed uint64
	// BusyNS is how long the kernel took to make them, in ns.
	BusyNS int64
	Checks exact.Checks
	// Ended says why it ended by itself. It is empty if it did not.
	Ended string
}

// switchMode is whether the process is followed by thread switches.
type switchMode struct {
	// now is who does, or did last. It is nil if nobody has.
	now atomic.Pointer[switchRun]
	// from is what is wanted, why the reason that it is not on.
	from    From
	why     atomic.Pointer[string]
	opening lane
	mu      sync.Mutex
	closed  bool
	// closing is closed before mu is taken to end it for good.
	closing   chan struct{}
	closeOnce sync.Once
}

// is reports whether it is on. It is cheap.
func (m *switchMode) is() bool {
	x := m.now.Load()
	return x != nil && x.on()
}

// over ends it, because the target has ended.
func (m *switchMode) over(why string) {
	if x := m.now.Load(); x != nil {
		x.end(why)
	}
}

// close ends it for good, and calls then when nothing more is done of it.
func (m *switchMode) close(then func() error) error {
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

// Switches follows the process by its thread switches until EndSwitches: samples carry Changes, and all is read at the stack rate. It is for
// any goroutine. The error is ruby.ErrNoScheduler, bpf.ErrKernel, bpf.ErrRights, or that of reading.
func (s *Source) Switches(ctx context.Context) error {
	m := &s.switches
	m.mu.Lock()
	defer m.mu.Unlock()
	switch x := m.now.Load(); {
	case m.closed:
		return fmt.Errorf("process %d: thread switches: it is not read any more", s.info.PID)
	case x != nil && x.on():
		return fmt.Errorf("process %d: its thread switches are followed already", s.info.PID)
	case x != nil:
		<-x.done
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-m.closing:
			stop()
		case <-ctx.Done():
		}
	}()
	x, err := result(ctx, &m.opening, func() (*switchRun, error) { return s.openSwitches(ctx) }, func(x *switchRun) { _, _ = x.close() })
	if err == nil {
		m.now.Store(x)
	}
	return err
}

// EndSwitches ends it, and says how it went. The report is empty if it never was on.
func (s *Source) EndSwitches() (SwitchReport, error) {
	s.switches.mu.Lock()
	defer s.switches.mu.Unlock()
	if x := s.switches.now.Load(); x != nil {
		return x.close()
	}
	return SwitchReport{}, nil
}

// SwitchStatus says how following by thread switches stands. It is for any goroutine.
func (s *Source) SwitchStatus() sampler.SwitchStatus {
	var st sampler.SwitchStatus
	if x := s.switches.now.Load(); x != nil {
		st = x.status()
	}
	st.Kind = string(s.switches.from)
	if s.switches.from != FromMoved {
		st.Kind = string(FromSwitches)
	}
	st.Wanted, st.Auto = s.switches.from.followed(), s.switches.from == FromAuto
	if why := s.switches.why.Load(); why != nil && !st.On && st.Ended == "" {
		st.Ended = *why
	}
	return st
}
