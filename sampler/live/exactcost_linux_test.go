package live_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// BenchmarkExactSource measures ddtop's CPU time at the usual rates, without exact mode and with it, in turns. It does
// so under several loads. In each load, the GVL changes its holder more often than in the load before. The cost of
// processing the samples is not included.
func BenchmarkExactSource(b *testing.B) {
	const rounds, length = 4, 3 * time.Second
	handing := func(perSecond int) string {
		return fmt.Sprintf(`r, w = IO.pipe; 4.times { Thread.new { loop { w.syswrite("x"); r.sysread(1); sleep %g } } }`, 4/float64(perSecond))
	}
	for _, load := range []struct{ name, program string }{
		{"idle", `3.times { Thread.new { sleep } }`},
		{"computing", `4.times { Thread.new { n = 0; loop { n += 1 } } }`},
		{"500", handing(1500)}, {"5000", handing(20_000)}, {"50000", `r, w = IO.pipe; 4.times { Thread.new { loop { w.syswrite("x"); r.sysread(1) } } }`},
	} {
		b.Run(load.name, func(b *testing.B) {
			p := rubytest.One(b).Start(b, "$stdout.sync = true\n"+load.program+"\nputs 'ready'\n$stdin.gets", rubytest.Options{})
			p.Expect(b, "ready")
			s, err := live.Open(b.Context(), p.PID, live.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for range b.N {
				var cpu [2]time.Duration
				var took [2]time.Duration
				var samples [2]int
				var changes uint64
				for range rounds {
					for mode := range cpu {
						if mode == 1 {
							if err := s.Exact(b.Context(), live.ExactOptions{MaxCost: 1}); err != nil {
								b.Skip(err)
							}
						}
						ctx, cancel := context.WithTimeout(b.Context(), length)
						began, at := ownTime(b), time.Now()
						if err := s.Run(ctx, func(*sampler.Sample) { samples[mode]++ }); err != nil {
							b.Fatal(err)
						}
						cpu[mode] += ownTime(b) - began
						took[mode] += time.Since(at)
						cancel()
						if mode == 1 {
							changes += s.ExactStatus().Changes
							if _, err := s.EndExact(); err != nil {
								b.Fatal(err)
							}
						}
					}
				}
				for mode, name := range []string{"sampling", "exact"} {
					b.ReportMetric(100*cpu[mode].Seconds()/took[mode].Seconds(), name+"-%cpu")
					b.ReportMetric(float64(samples[mode])/took[mode].Seconds(), name+"-samples/s")
				}
				b.ReportMetric(float64(changes)/took[1].Seconds(), "changes/s")
			}
		})
	}
}

// ownTime returns the CPU time of this process.
func ownTime(tb testing.TB) time.Duration {
	tb.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
