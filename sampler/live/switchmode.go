package live

import (
	"context"
	"sync/atomic"

	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/exact"
	"github.com/ddtop/ddtop/sampler/live/internal/apart"
)

// SwitchReport says what was recorded while ddtop followed thread switches, what this cost, and why it ended.
type SwitchReport struct {
	// FromNS and ToNS are when ddtop began and ended to follow thread switches, CLOCK_MONOTONIC in ns.
	FromNS, ToNS int64
	// Records is how many intervals on a CPU were recorded. Lost is how many were dropped because a buffer was full.
	// Failed is the number of words in memory that could not be read.
	Records, Lost, Failed uint64
	// BusyNS is how long the kernel took to make the records, in ns.
	BusyNS int64
	Checks exact.Checks
	// Ended says why ddtop stopped following the process. It is empty if the caller stopped it, or if it has not
	// stopped.
	Ended string
}

// switchMode starts and stops the following of thread switches.
type switchMode struct {
	mode[switchRun, *switchRun]
	// from is the source of states that the user asked for. why is the reason if the mode is off.
	from From
	why  atomic.Pointer[string]
}

// Switches follows the process by its thread switches until EndSwitches is called. During this time samples have
// Changes, and all ticks come at the rate for stacks. Any goroutine may call it. Errors are ruby.ErrNoScheduler,
// bpf.ErrKernel, bpf.ErrRights, and errors of reading.
func (s *Source) Switches(ctx context.Context) error {
	m := &s.switches
	return m.begin(ctx, s.info.PID, "thread switches", "its thread switches are followed", func(ctx context.Context) (*switchRun, error) {
		open := func() (*switchRun, error) { return s.openSwitches(ctx) }
		return apart.Result(ctx, &m.opening, open, func(x *switchRun) { _ = x.stop() })
	})
}

// EndSwitches stops following thread switches. If ddtop never followed them, the report is empty.
func (s *Source) EndSwitches() (SwitchReport, error) {
	s.switches.mu.Lock()
	defer s.switches.mu.Unlock()
	if x := s.switches.now.Load(); x != nil {
		return x.close()
	}
	return SwitchReport{}, nil
}

// SwitchStatus says whether ddtop follows the process by thread switches. Any goroutine may call it.
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
