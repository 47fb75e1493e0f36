package run

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ddtop/ddtop/internal/cli/exact"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/live"
)

// Unlimited is the length of a measurement that lasts until the process ends.
const Unlimited = time.Duration(math.MaxInt64)

// ErrNothing is returned when a measurement ended before its second sample, because a single sample covers no time.
var ErrNothing = errors.New("it ended before anything was measured")

// patience is how much longer than requested a measurement waits for its second sample. On a machine without free CPU
// time, the first sample alone can take longer than a short measurement.
const patience = 10 * time.Second

// SampleFor calls emit with each sample of the source. It ends when the time length has passed since the first sample,
// or when ctx or the target ends. note is a sentence that says why it ended early, or "" if it did not.
func SampleFor(ctx context.Context, src sampler.Source, length time.Duration, emit func(*sampler.Sample)) (note string, err error) {
	atMost := length
	if length < Unlimited-patience {
		atMost += patience
	}
	timed, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	samples := 0
	var first, last int64
	var began time.Time
	err = src.Run(timed, func(s *sampler.Sample) {
		samples++
		switch samples {
		case 1:
			first, began = s.TimeNS, time.Now()
		case 2:
			time.AfterFunc(length-time.Since(began), cancel)
		}
		last = s.TimeNS
		emit(s)
	})
	ended := errors.Is(err, sampler.ErrEnded)
	// The measurement has ended and does not need the probes. They slow the process down, so remove them now.
	if inexact := exact.End(src); inexact != nil {
		return "", errors.Join(inexact, err)
	}
	if err != nil && !ended {
		return "", err
	}
	failedNS, failed := readFailure(src)
	if samples < 2 {
		// A recording can end before its process does. So report the process's end only if the recording has it.
		if _, seen := src.End(); ended && seen {
			return "", fmt.Errorf("%w: process %d %s", ErrNothing, src.Process().PID, howItEnded(src))
		}
		if silence(src) > 0 {
			return "", fmt.Errorf("%w: %w", ErrNothing, live.NoAnswer(src.Process().PID, nil))
		}
		if failed != nil {
			return "", fmt.Errorf("%w: %w", ErrNothing, failed)
		}
		return "", ErrNothing
	}
	seconds := math.Round(float64(last-first)/1e7) / 100
	silent := silence(src)
	switch {
	case ended:
		return fmt.Sprintf("process %d %s after %g s; this is what was measured until then", src.Process().PID, howItEnded(src), seconds), nil
	case silent > 0:
		return fmt.Sprintf("reading process %d has not come back for %.1f s; this is what was measured in %g s until then",
			src.Process().PID, silent.Seconds(), seconds), nil
	case failed != nil:
		return fmt.Sprintf("process %d could not be read since %s (%v); this is what was measured in %g s until then",
			src.Process().PID, src.Process().WallTime(failedNS).Format(time.TimeOnly), failed, seconds), nil
	case ctx.Err() != nil:
		return fmt.Sprintf("interrupted after %g s; this is what was measured until then", seconds), nil
	}
	return "", nil
}

// silence returns how long the tick that is now in progress has taken so far. It is zero if no tick is in progress.
func silence(src sampler.Source) time.Duration {
	if s, ok := src.(*live.Source); ok {
		return s.Silent()
	}
	return 0
}

// readFailure returns since when ddtop cannot read a source's process, and why. err is nil if ddtop can read it.
func readFailure(src sampler.Source) (sinceNS int64, err error) {
	if s, ok := src.(*live.Source); ok {
		return s.Failing()
	}
	return 0, nil
}

// TellFailures calls say each time ddtop cannot read a process for a while, and again when ddtop can read it. It
// returns when ctx ends.
func TellFailures(ctx context.Context, src sampler.Source, say func(format string, args ...any)) {
	var told int64
	Every(ctx, time.Second, func(time.Time) {
		since, err := readFailure(src)
		p := src.Process()
		switch {
		case since == told:
		case err == nil:
			say("process %d is read again", p.PID)
		default:
			say("process %d could not be read since %s: %v; ddtop goes on trying", p.PID, p.WallTime(since).Format(time.TimeOnly), err)
		}
		told = since
	})
}

// LastLook limits how long ddtop may still read a process after a signal has ended the measurement.
const LastLook = time.Second

// Afterwards returns the context for reading the process after a measurement. If a signal ended the measurement, this
// context ends after LastLook.
func Afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), LastLook)
}

// howItEnded returns how a process ended, in words such as "exited (code 3)", "exited" or "ended".
func howItEnded(src sampler.Source) string {
	end, ok := src.End()
	switch {
	case !ok:
		return "ended"
	case end.ExitKnown:
		return fmt.Sprintf("%s (code %d)", end.Reason, end.ExitCode)
	}
	return end.Reason
}

// WithinEnd limits the time of all work that ddtop does after a signal that ends it.
const WithinEnd = 4500 * time.Millisecond

// Ending returns a context for the work after the end of ctx, such as writing a file. It ends after WithinEnd.
func Ending(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), WithinEnd)
}
