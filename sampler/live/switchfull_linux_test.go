package live

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// passing is a program with two pairs of threads. The threads of a pair only wake each other.
const passing = `
2.times do
  a, b, c, d = *IO.pipe, *IO.pipe
  Thread.new { loop { a.readbyte; d.write "x" } }
  Thread.new { loop { b.write "x"; c.readbyte } }
end
puts 1; $stdout.flush
$stdin.gets
`

// TestSwitchRingFull: if ddtop does not fetch records of thread switches for a while, their ring buffer fills up and
// records are lost. ddtop must count the lost records. For this time, samples must not claim to know all changes.
// Afterwards, samples must have all changes again.
func TestSwitchRingFull(t *testing.T) {
	if err := CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	rubytest.Long(t)
	p := rubytest.One(t).Start(t, passing, rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{From: FromSwitches})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	var fullNS, afterNS int64
	known := 0
	if err := s.Run(ctx, func(x *sampler.Sample) {
		c := &x.Changes
		switch {
		case !c.Known():
		case fullNS == 0:
			if known++; known < 20 {
				return
			}
			run := s.switches.now.Load()
			run.mu.Lock()
			for lost := uint64(0); lost == 0 && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
				counts, err := run.feed.Counts()
				if err != nil {
					t.Error(err)
					cancel()
				}
				lost = counts.Lost
			}
			fullNS = pace.Monotonic()
			time.Sleep(200 * time.Millisecond)
			afterNS = pace.Monotonic()
			run.mu.Unlock()
			known = 0
		case c.ToNS > fullNS && c.FromNS < afterNS:
			t.Errorf("changes are told of between %d and %d, and the ring was full from %d to %d", c.FromNS, c.ToNS, fullNS, afterNS)
		case c.FromNS >= afterNS:
			if known++; known > 20 {
				cancel()
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	switch st := s.SwitchStatus(); {
	case fullNS == 0 || st.Lost == 0:
		rubytest.TooSeldomNow(t, "the ring was never full: %+v", st)
	case known <= 20:
		t.Errorf("%d samples have changes afterwards: %+v", known, st)
	default:
		rubytest.Report(t, "%d of %d records had no room", st.Lost, st.Records)
	}
}

// TestSwitchesTooMany: if a process's threads switch more often than the limit on ddtop's CPU time allows, ddtop must
// soon poll the process instead. It must report the reason, and continue to sample. The threads begin to switch when
// ddtop knows their changes. The test uses a very small limit, at which 350 records a second are too many. With the
// usual limit, 20,000 a second would be needed, which a process may not reach on a full machine.
func TestSwitchesTooMany(t *testing.T) {
	if err := CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	const share = 0.001
	p := rubytest.One(t).Start(t, "puts 0; $stdout.flush\n$stdin.gets"+passing, rubytest.Options{})
	p.Expect(t, "0")
	s, err := Open(t.Context(), p.PID, Options{From: FromAuto, Overhead: share})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	var toNS int64 // the time up to which changes are known
	after := 0
	if err := s.Run(ctx, func(x *sampler.Sample) {
		c := &x.Changes
		if c.Known() {
			if toNS == 0 {
				p.Send(t, "")
			}
			if toNS != 0 && c.FromNS != toNS && !c.Fresh || after > 0 {
				t.Errorf("changes are known until %d, and then from %d on: %+v", toNS, c.FromNS, s.SwitchStatus())
			}
			toNS = c.ToNS
			return
		}
		// Only samples from after the end of following count here. Earlier samples can also lack changes, because there
		// were too many records.
		if run := s.switches.now.Load(); toNS != 0 && run != nil && !run.on() && x.TimeNS > run.toNS.Load() {
			if after++; after == 10 {
				cancel()
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	st := s.SwitchStatus()
	if least := share / 2 * 2e9 / 1_500; toNS == 0 || float64(st.Records) < least {
		t.Errorf("changes are known until %d, and it ended after fewer than %.0f records: %+v", toNS, least, st)
	}
	if after < 10 || !strings.Contains(st.Ended, "--overhead") || st.On {
		t.Errorf("%d samples afterwards, %+v", after, st)
	}
	if n, rate := s.budget.Records.Now(); rate > 1 || n != 0 {
		t.Errorf("%d processes are counted, with %.0f records a second", n, rate)
	}
}
