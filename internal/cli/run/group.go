package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// measuring is the function that MeasureGroup calls for each process. It measures the process for a length of time. It
// returns the result, and a note that says why the measurement ended early, or "".
type measuring[T any] func(ctx context.Context, src sampler.Source, length time.Duration) (T, string, error)

// MeasureGroup measures all processes of a group for the same time. A process that starts later is measured until the
// end of this time. The results are in the order in which ddtop found the processes. MeasureGroup prints which
// processes cannot be measured, and fails only if none can.
func MeasureGroup[T any](ctx context.Context, g sampler.Group, length time.Duration, std Streams, measure measuring[T]) ([]T, error) {
	type result struct {
		value T
		note  string
		err   error
	}
	until := time.Now().Add(length)
	if length == Unlimited {
		until = time.Now().Add(24 * 365 * time.Hour)
	}
	following, stop := context.WithDeadline(ctx, until)
	defer stop()
	var results []*result
	all, err := sampler.FollowEach(following, g, func(src sampler.Source) func() {
		r := new(result)
		results = append(results, r)
		return func() { r.value, r.note, r.err = measure(ctx, src, time.Until(until)) }
	})
	<-all
	if err != nil && !errors.Is(err, sampler.ErrEnded) {
		return nil, err
	}
	var out []T
	var failed []error
	interrupted := ""
	for _, r := range results {
		switch {
		case r.err != nil:
			failed = append(failed, r.err)
		case ctx.Err() != nil:
			interrupted = r.note // the interrupt ended all measurements, so all notes are the same; print one
			out = append(out, r.value)
		default:
			SayNote(std, r.note)
			out = append(out, r.value)
		}
	}
	SayNote(std, interrupted)
	if len(out) == 0 {
		if len(failed) > 0 {
			return nil, fmt.Errorf("%w: %w", ErrNothingOfAny, failed[0])
		}
		return nil, ErrNothingOfAny
	}
	for _, err := range failed {
		if !errors.Is(err, ErrNothing) { // a process that ended at once is reported elsewhere, as ended
			std.SayErr(err)
		}
	}
	return out, nil
}

// ErrNothingOfAny is returned when none of several processes lived long enough to be measured.
var ErrNothingOfAny = errors.New("none of the processes could be measured")
