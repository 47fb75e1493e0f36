package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/sampler"
)

// intervalLines writes a line of JSON for each interval, while it is measured.
type intervalLines struct{ oneProcess }

func (intervalLines) write(ctx context.Context, src sampler.Source, j *job) error {
	note, err := writeIntervals(ctx, src, j.length, j.notes, j.out, j.std)
	if err == nil {
		j.noted(note)
	}
	return err
}

// writeIntervals measures for a length of time, or reads a whole recording, and writes what happened meanwhile. note says why it ended
// early, "" when it did not.
func writeIntervals(ctx context.Context, src sampler.Source, length time.Duration, notes []sampler.Note, out run.Output, std run.Streams) (note string, err error) {
	giveUp, released := run.Patience(ctx)
	defer released()
	file, err := out.Stream(giveUp, std)
	if err != nil {
		return "", err
	}
	aside := run.WriteAside(file, giveUp)
	class, stream := gvl.NewClassifier(src.Process(), src.Dictionary()), gvl.NewStream(src.Process())
	lines := export.NewIntervals(aside, stream, src.Process(), src.Dictionary(), Version)
	for _, n := range notes {
		lines.Note(n)
	}
	measuring, stop := context.WithCancel(ctx)
	defer stop()
	note, err = run.SampleFor(measuring, src, length, func(s *sampler.Sample) {
		if stream.Feed(s, class.Classify(s)); lines.Err() != nil {
			stop() // a full disk ends the measurement: nothing more would be written
		}
	})
	stream.Finish()
	if lines.Err() == nil {
		// What came before, the probes that were taken out above all, was no fault of the disk's.
		giveUp, written := run.Patience(ctx)
		defer written()
		aside.GiveUp = giveUp
	}
	end, _ := src.End()
	failed := errors.Join(err, lines.Finish(end.Reason), aside.Close())
	if failed != nil && err == nil {
		failed = fmt.Errorf("writing the intervals of process %d to %s: %w", src.Process().PID, out, firstOf(failed))
	}
	// A disk that hangs holds whoever closes its file, too.
	if err := run.Unless(aside.GiveUp, run.Slow, func() error { return file.Done(failed == nil) }); failed == nil {
		failed = err
	}
	if failed != nil {
		if err == nil {
			run.SayNote(std, file.Kept)
		}
		return "", failed
	}
	return note, nil
}

// firstOf is the first of errors that were joined: what comes after it is of the same cause.
func firstOf(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()[0]
	}
	return err
}
