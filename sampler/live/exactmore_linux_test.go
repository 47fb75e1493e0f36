package live_test

import (
	"context"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// TestExactModeMayCostMore: TakeMore allows exact mode to cost more than --exact-cost for some time. During this time,
// exact mode must continue. Soon after, it must end because of its cost. The program computes between its system calls,
// so the probes cost it one to five percent.
func TestExactModeMayCostMore(t *testing.T) {
	eachExact(t, func(t *testing.T, r rubytest.Ruby) {
		_, s := openExact(t, r, `$stdout.sync = true
puts "ready"
r, w = IO.pipe
loop { w.syswrite("x"); r.sysread(1); 20_000.times { } }`, rubytest.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), rubytest.Timeout)
		defer cancel()
		s.TakeMore(sampler.MoreTime)
		if err := s.Exact(ctx, live.ExactOptions{MaxCost: 1e-4}); err != nil {
			t.Fatal(err)
		}
		// The limit is for the mean cost in a second, and is checked five times a second. So after two seconds, ddtop
		// must have noticed that the cost exceeds it.
		const longEnough = 2_000_000_000
		began := s.ExactStatus().SinceNS
		if err := s.Run(ctx, func(x *sampler.Sample) {
			switch st := s.ExactStatus(); {
			case !st.On:
				cancel()
			case x.TimeNS-began > longEnough:
				s.TakeMore(0)
			}
		}); err != nil {
			t.Fatal(err)
		}
		report, err := s.EndExact()
		if err != nil || !strings.Contains(report.Ended, "may cost 0.01 %") || report.ToNS-began < longEnough {
			t.Errorf("it ended after %.1f s: %q, %v", float64(report.ToNS-began)/1e9, report.Ended, err)
		}
	})
}
