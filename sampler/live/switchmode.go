package live

import (
	"context"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
)

// SwitchReport says how following a process by thread switches went.
type SwitchReport struct {
	// FromNS and ToNS are between when it was followed, CLOCK_MONOTONIC in ns.
	FromNS, ToNS int64
	// Records is the number of recorded intervals on a CPU. Lost is the number of intervals dropped because a buffer
	// was full. Failed is the number of words that could not be read.
	Records, Lost, Failed uint64
	// BusyNS is how long the kernel took to make them, in ns.
	BusyNS int64
	Checks exact.Checks
	// Ended says why it ended by itself. It is empty if it did not.
	Ended string
}

// switchMode is whether the process is followed by thread switches.
type switchMode struct {
	mode[switchRun, *switchRun]
	// from is the wanted source. why is the reason if it is not on.
	from From
	why  atomic.Pointer[string]
}

// Switches follows the process by its thread switches until EndSwitches is called. Samples carry Changes, and
// everything is read at the stack rate. Any goroutine may call it. Errors are ruby.ErrNoScheduler, bpf.ErrKernel,
// bpf.ErrRights, and errors of reading.
func (s *Source) Switches(ctx context.Context) error {
	m := &s.switches
	return m.begin(ctx, s.info.PID, "thread switches", "its thread switches are followed", func(ctx context.Context) (*switchRun, error) {
		open := func() (*switchRun, error) { return s.openSwitches(ctx) }
		return apart.Result(ctx, &m.opening, open, func(x *switchRun) { _ = x.stop() })
	})
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

// SwitchStatus returns the state of following by thread switches. Any goroutine may call it.
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
