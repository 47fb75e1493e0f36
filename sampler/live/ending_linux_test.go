package live

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
)

// TestNothingIsLostAtTheEnd: whoever ends it in the midst of a batch, what was read until then is delivered, in order and
// each tick once.
func TestNothingIsLostAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(p *rubytest.Process, stop context.CancelFunc){
		"quit":             func(_ *rubytest.Process, stop context.CancelFunc) { stop() },
		"the process ends": func(p *rubytest.Process, _ context.CancelFunc) { _ = unix.Kill(p.PID, unix.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			p := rubytest.One(t).Start(t, "$stdout.sync = true\nputs 'up'\nx = 0\nloop { x += 1 }\n", rubytest.Options{})
			p.Expect(t, "up")
			s, err := Open(t.Context(), p.PID, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, stop := context.WithTimeout(t.Context(), rubytest.Timeout)
			defer stop()
			var last sampler.Reads
			first, taken := uint64(0), uint64(0)
			err = s.Run(ctx, func(x *sampler.Sample) {
				if taken++; taken == 1 {
					first = x.Reads.Ticks
				}
				if last = x.Reads; last.Ticks != first+taken-1+last.Lost {
					t.Errorf("sample %d is tick %d, the first was %d, %d are said to be lost", taken, last.Ticks, first, last.Lost)
				}
				if taken == 70 {
					end(p, stop)
				}
			})
			if err != nil && !errors.Is(err, sampler.ErrEnded) {
				t.Fatal(err)
			}
			if read := s.reader.Reads().Ticks; last.Ticks != read {
				t.Errorf("the last of %d samples is tick %d of %d", taken, last.Ticks, read)
			}
		})
	}
}
