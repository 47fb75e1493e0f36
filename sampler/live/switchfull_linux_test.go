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

// passing has pairs of threads that do nothing but wake each other.
const passing = `
2.times do
  a, b, c, d = *IO.pipe, *IO.pipe
  Thread.new { loop { a.readbyte; d.write "x" } }
  Thread.new { loop { b.write "x"; c.readbyte } }
end
puts 1; $stdout.flush
$stdin.gets
`

// TestSwitchRingFull: when nobody takes the records for a while their ring is full, which is counted. No changes are told of that time, and they are
// again afterwards.
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

// TestSwitchesTooMany: a process whose threads switch more often than ddtop's share of a CPU allows is polled after a moment. The reason is told, and
// samples follow each other as before.
func TestSwitchesTooMany(t *testing.T) {
	if err := CheckSwitches(); err != nil {
		rubytest.Skip(t, "%v", err)
	}
	p := rubytest.One(t).Start(t, passing, rubytest.Options{})
	p.Line(t)
	s, err := Open(t.Context(), p.PID, Options{From: FromAuto, Overhead: 0.03})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer cancel()
	var toNS int64 // until when changes are known
	after := 0
	if err := s.Run(ctx, func(x *sampler.Sample) {
		c := &x.Changes
		if c.Known() {
			if toNS != 0 && c.FromNS != toNS && !c.Fresh || after > 0 {
				t.Errorf("changes are known until %d, and then from %d on", toNS, c.FromNS)
			}
			toNS = c.ToNS
			return
		}
		if st := s.SwitchStatus(); toNS != 0 && !st.On && st.Ended != "" {
			if after++; after == 10 {
				cancel()
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	st := s.SwitchStatus()
	if toNS == 0 || st.Records < 6000 {
		rubytest.TooSeldomNow(t, "its threads did not switch often: %+v", st)
	}
	if after < 10 || !strings.Contains(st.Ended, "--overhead") || st.On {
		t.Errorf("%d samples afterwards, %+v", after, st)
	}
	if n, rate := s.budget.Records.Now(); rate > 1 || n != 0 {
		t.Errorf("%d processes are counted, with %.0f records a second", n, rate)
	}
}
