package run

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/ddtop/ddtop/recording"
)

// errUnread is returned when no program reads the output.
var errUnread = errors.New("nothing more could be written: nobody reads it")

// patientWriter is a writer that does not wait forever for a reader. If a write is still blocked some time after ctx
// has ended, patientWriter gives up and returns errUnread. All later writes fail in the same way.
type patientWriter struct {
	ctx    context.Context
	to     io.Writer
	unread bool
}

func (p *patientWriter) Write(b []byte) (n int, err error) {
	if p.unread {
		return 0, errUnread
	}
	giveUp, released := Patience(p.ctx)
	defer released()
	own := bytes.Clone(b) // the caller may use b again once Write has returned
	written := make(chan int, 1)
	err = Unless(giveUp, func() error { p.unread = true; return errUnread }, func() error {
		n, err := p.to.Write(own)
		written <- n
		return err
	})
	if !p.unread {
		n = <-written
	}
	return n, err
}

const (
	// asideChunk is the size, in bytes, of the chunks that are passed to the writing goroutine. asideWaiting limits how
	// many chunks wait to be written.
	asideChunk   = 64 << 10
	asideWaiting = 64
)

// asideWriter writes in its own goroutine, so that sampling continues while the disk is slow for a moment. If the disk
// is slow for longer, Write blocks until there is room or giveUp is closed. Meanwhile samples are lost, and the
// sampling thread counts them.
type asideWriter struct {
	GiveUp <-chan struct{}
	chunk  []byte
	chunks chan []byte
	done   chan error
	failed chan struct{} // closed when nothing more can be written
	err    error         // why nothing more can be written; set before failed is closed
}

// WriteAside returns a writer that writes to the writer to in its own goroutine (asideWriter).
func WriteAside(to io.Writer, giveUp <-chan struct{}) *asideWriter {
	w := &asideWriter{GiveUp: giveUp, chunks: make(chan []byte, asideWaiting), done: make(chan error, 1), failed: make(chan struct{})}
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

// Write collects data, and passes each full chunk to the writing goroutine.
func (w *asideWriter) Write(b []byte) (int, error) {
	w.chunk = append(w.chunk, b...)
	if len(w.chunk) < asideChunk {
		return len(b), nil
	}
	return len(b), w.hand()
}

// hand passes the collected data to the writing goroutine.
func (w *asideWriter) hand() error {
	select {
	case <-w.failed:
		return w.err
	case w.chunks <- w.chunk:
		w.chunk = make([]byte, 0, asideChunk+asideChunk/4)
		return nil
	case <-w.GiveUp:
		return recording.ErrSlow
	}
}

// Close writes the data that is not written yet, and waits until everything is written.
func (w *asideWriter) Close() error {
	err := w.hand()
	close(w.chunks)
	if err != nil {
		return err
	}
	return Unless(w.GiveUp, Slow, func() error { return <-w.done })
}

// Slow returns the error for samples that were lost because the disk was too slow.
func Slow() error { return recording.ErrSlow }
