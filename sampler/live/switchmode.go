package live

import (
	"context"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
)

// SwitchReport says what following a process by thread switches has recorded and cost, and why it ended.
type SwitchReport struct {
	// FromNS and ToNS are when following began and ended, CLOCK_MONOTONIC in ns.
	FromNS, ToNS int64
	// Records is the number of recorded intervals on a CPU. Lost is the number of intervals dropped because a buffer
	// was full. Failed is the number of words that could not be read.
	Records, Lost, Failed uint64
	// BusyNS is how long the kernel took to make the records, in ns.
	BusyNS int64
	Checks exact.Checks
	// Ended says why ddtop stopped following without being told to. Otherwise it is empty.
	Ended string
}

// switchMode turns the following of thread switches on and off.
type switchMode struct {
	mode[switchRun, *switchRun]
	// from is the source that the user asked for. why is the reason if the mode is off.
	from From
	why  atomic.Pointer[string]
}

// Switches follows the process by its thread switches until EndSwitches is called. Samples carry Changes, and all
// ticks come at the stack rate. Any goroutine may call it. Errors are ruby.ErrNoScheduler, bpf.ErrKernel,
// bpf.ErrRights, and errors of reading.
func (s *Source) Switches(ctx context.Context) error {
	m := &s.switches
	return m.begin(ctx, s.info.PID, "thread switches", "its thread switches are followed", func(ctx context.Context) (*switchRun, error) {
		open := func() (*switchRun, error) { return s.openSwitches(ctx) }
		return apart.Result(ctx, &m.opening, open, func(x *switchRun) { _ = x.stop() })
	})
}

// EndSwitches stops following thread switches. The report is empty if they were never followed.
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
