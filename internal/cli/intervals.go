package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ddtop/ddtop/export/trace"
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/stream"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

const (
	// asideChunk is the size of what is handed to the goroutine that writes, in bytes, and asideWaiting how many of them may wait.
	asideChunk   = 64 << 10
	asideWaiting = 64
)

// asideWriter writes on a goroutine of its own, so that a disk that is slow for a moment stops nobody. When it is slow for longer, Write
// waits for it until giveUp is closed; the samples that are lost meanwhile are counted by who samples.
type asideWriter struct {
	giveUp <-chan struct{}
	chunk  []byte
	chunks chan []byte
	done   chan error
	failed chan struct{} // closed when nothing more can be written
	err    error         // why, once failed is closed
}

func writeAside(to io.Writer, giveUp <-chan struct{}) *asideWriter {
	w := &asideWriter{giveUp: giveUp, chunks: make(chan []byte, asideWaiting), done: make(chan error, 1), failed: make(chan struct{})}
	go func() {
		for c := range w.chunks {
			if w.err != nil {
				continue
			}
			if _, w.err = to.Write(c); w.err != nil {
				close(w.failed)
			}
		}
		w.done <- w.err
	}()
	return w
}

// Write takes what is to be written.
func (w *asideWriter) Write(b []byte) (int, error) {
	w.chunk = append(w.chunk, b...)
	if len(w.chunk) < asideChunk {
		return len(b), nil
	}
	return len(b), w.hand()
}

// hand hands over what has been collected.
func (w *asideWriter) hand() error {
	select {
	case <-w.failed:
		return w.err
	case w.chunks <- w.chunk:
		w.chunk = make([]byte, 0, asideChunk+asideChunk/4)
		return nil
	case <-w.giveUp:
		return recording.ErrSlow
	}
}

// close writes what is left.
func (w *asideWriter) close() error {
	err := w.hand()
	close(w.chunks)
	if err != nil {
		return err
	}
	return run.Unless(w.giveUp, slow, func() error { return <-w.done })
}

// intervalLines writes a line of JSON for each interval, while it is measured.
type intervalLines struct{ oneProcess }

func (intervalLines) write(ctx context.Context, src sampler.Source, j *job) error {
	note, err := writeIntervals(ctx, src, j.length, j.notes, j.out, j.std)
	if err == nil {
		j.noted(note)
	}
	return err
}

func slow() error { return recording.ErrSlow }

// writeIntervals measures for a length of time, or reads a whole recording, and writes what happened meanwhile. note says why it ended
// early, "" when it did not.
func writeIntervals(ctx context.Context, src sampler.Source, length time.Duration, notes []sampler.Note, out output, std Streams) (note string, err error) {
	giveUp, released := run.Patience(ctx)
	defer released()
	file, err := out.stream(giveUp, std)
	if err != nil {
		return "", err
	}
	aside := writeAside(file, giveUp)
	class, stream := gvl.NewClassifier(src.Process(), src.Dictionary()), stream.New(src.Process())
	lines := trace.NewIntervals(aside, stream, src.Process(), src.Dictionary(), Version)
	for _, n := range notes {
		lines.Note(n)
	}
	measuring, stop := context.WithCancel(ctx)
	defer stop()
	note, err = sampleFor(measuring, src, length, func(s *sampler.Sample) {
		if stream.Feed(s, class.Classify(s)); lines.Err() != nil {
			stop() // a full disk ends the measurement: nothing more would be written
		}
	})
	stream.Finish()
	if lines.Err() == nil {
		// What came before, the probes that were taken out above all, was no fault of the disk's.
		giveUp, written := run.Patience(ctx)
		defer written()
		aside.giveUp = giveUp
	}
	end, _ := src.End()
	failed := errors.Join(err, lines.Finish(end.Reason), aside.close())
	if failed != nil && err == nil {
		failed = fmt.Errorf("writing the intervals of process %d to %s: %w", src.Process().PID, out, firstOf(failed))
	}
	// A disk that hangs holds whoever closes its file, too.
	if err := run.Unless(aside.giveUp, slow, func() error { return file.done(failed == nil) }); failed == nil {
		failed = err
	}
	if failed != nil {
		if err == nil {
			sayNote(std, file.kept)
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
