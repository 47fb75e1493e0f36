package live

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/internal/rubytest"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live/internal/pace"
)

// TestSamplingDoesNotWait: while the function that receives samples is busy, the clock must continue to sample. The
// function must then receive these samples later.
func TestSamplingDoesNotWait(t *testing.T) {
	p := rubytest.One(t).Start(t, "$stdout.sync = true\nputs 'up'\nx = 0\nloop { x += 1 }\n", rubytest.Options{})
	p.Expect(t, "up")
	s, err := Open(t.Context(), p.PID, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithTimeout(t.Context(), rubytest.Timeout)
	defer stop()
	var from, to int64
	within, after := 0, 0
	err = s.Run(ctx, func(x *sampler.Sample) {
		switch {
		case from == 0:
			from = pace.Monotonic()
			time.Sleep(time.Second) // as if the consumer writes to a disk or draws
			to = pace.Monotonic()
		case x.TimeNS > to:
			if after++; after == 1 {
				stop()
			}
		default:
			within++
		}
	})
	if err != nil && !errors.Is(err, attach.ErrGone) {
		t.Fatal(err)
	}
	if within == 0 || after == 0 {
		t.Errorf("%d samples are of the second in which nobody took any, %d of later", within, after)
	}
	t.Logf("%d samples are of the %v in which nobody took any", within, time.Duration(to-from))
}
