package live_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestCountersAtLowRates samples at the low rates that a small limit on ddtop's cost leaves on a full machine. Even
// then, the CPU counters of threads must be recent. The last sample must have the counters up to the end, because
// otherwise CPU time would be missing. The test samples a real process, because only the clock knows both the rates and
// the end of sampling.
func TestCountersAtLowRates(t *testing.T) {
	for _, window := range []time.Duration{0, time.Second} {
		t.Run(window.String(), func(t *testing.T) { countersAtLowRates(t, window) })
	}
}

func countersAtLowRates(t *testing.T, window time.Duration) {
	r := rubytest.One(t)
	oldest := time.Second
	if window != 0 {
		oldest = window / 4 // in a window of one second, counters are read four times
	}
	p := r.Start(t, `
		Thread.new { loop { 1 + 1 } }
		puts "up"
		$stdout.flush
		sleep
	`, rubytest.Options{})
	p.Expect(t, "up")
	s := open(t, p.PID, live.Options{StackRate: 1, LockRate: 5, Window: window})
	ctx, cancel := context.WithTimeout(context.Background(), rubytest.Timeout)
	defer cancel()
	// read has, for each thread, when its counters were last read.
	read := map[sampler.ThreadID]int64{}
	var endedNS, lastNS int64
	samples, lockReads := 0, 0
	err := s.Run(ctx, func(x *sampler.Sample) {
		samples++
		lastNS = x.TimeNS
		for i := range x.Threads {
			th := &x.Threads[i]
			if age := x.TimeNS - th.Kernel.CPUAtNS; age >= int64(oldest) {
				t.Errorf("sample %d: the counters of thread %d are %v old", samples, th.ID, time.Duration(age))
			}
			if x.Depth == sampler.LockTick && th.Kernel.CPUAtNS != read[th.ID] {
				lockReads++
			}
			read[th.ID] = th.Kernel.CPUAtNS
			if age := x.TimeNS - x.Proc.AtNS; age >= int64(oldest) {
				t.Errorf("sample %d: the counters of the process are %v old", samples, time.Duration(age))
			}
		}
		if samples == 12 {
			endedNS = x.TimeNS
			cancel()
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if samples < 13 || lockReads == 0 {
		t.Errorf("%d samples, and %d readings in lock ticks; want one more after the end was asked for", samples, lockReads)
	}
	for id, at := range read {
		if at <= endedNS || at < lastNS {
			t.Errorf("the counters of thread %d were read last %v before the last sample", id, time.Duration(lastNS-at))
		}
	}
}
