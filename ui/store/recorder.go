package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// Recorder writes samples to a file as they come. Even if ddtop crashes, the file can be read, and at most the last two
// seconds are missing.
type Recorder struct {
	Path string
	File *os.File
	W    *recording.Writer
	err  error // the first error. Nothing is written after it.
	// notes are notes of the user that are not written yet. They are written together with the next sample.
	notes []sampler.Note

	once   sync.Once
	done   chan struct{} // closed when the file is closed
	closed error         // the error of closing the file
}

// write adds a sample to the file. Two calls of write must not run at the same time.
func (r *Recorder) write(s *sampler.Sample) {
	r.writeNotes()
	if r.err == nil {
		r.err = r.W.Write(s)
	}
}

func (r *Recorder) writeNotes() {
	for len(r.notes) > 0 && r.err == nil {
		err := r.W.Note(r.notes[0])
		if errors.Is(err, recording.ErrSlow) {
			return // the disk is slow: the next write tries again
		}
		r.err, r.notes = err, r.notes[1:]
	}
}

// close writes the samples that are left and closes the file, in a goroutine of its own. A disk may hang. If the caller
// closes giveUp, close returns without waiting for this goroutine. Further calls of close wait for the same goroutine.
// After close, write must not be called.
func (r *Recorder) close(end *sampler.End, giveUp <-chan struct{}) error {
	r.once.Do(func() {
		r.done = make(chan struct{})
		go func() {
			defer close(r.done)
			r.W.Live(false)
			r.writeNotes()
			if r.closed = errors.Join(r.err, r.W.Close(end), r.File.Close()); r.closed != nil {
				r.closed = fmt.Errorf("recording to %s: %w", r.Path, r.closed)
			}
		}()
	})
	select {
	case <-r.done:
		return r.closed
	case <-giveUp:
		return fmt.Errorf("recording to %s: %w", r.Path, r.W.Unwritten())
	}
}

// maxRecordings limits how many names newRecording tries for a file. The first names may be taken by other recordings
// of the same second.
const maxRecordings = 100

// newRecording makes a file for a recording, named after base. Its mode is 0600, because stacks and names can be
// private. If the folder is missing, newRecording makes it (mode 0700). It opens the folder first and makes the file
// relative to the open folder. Otherwise the folder's owner could replace the folder by a link before the file is made.
func newRecording(base string) (path string, file *os.File, err error) {
	folder, err := safefile.MakeFolder(filepath.Dir(base))
	if err != nil {
		return "", nil, fmt.Errorf("%w: choose a folder you may write to", err)
	}
	defer folder.Close()
	for n := 1; n <= maxRecordings; n++ {
		path = base + ".ddtop"
		if n > 1 {
			path = fmt.Sprintf("%s-%d.ddtop", base, n)
		}
		file, err = safefile.Create(folder, filepath.Base(path), path)
		if !errors.Is(err, os.ErrExist) {
			break
		}
	}
	return path, file, err
}

// Record begins a recording in a new file named after base. The recording has the samples and notes from fromNS on. Its
// names come from the Dictionary d. Samples may come while the file is being made. Record reads them from the history.
func (s *Store) Record(base string, p sampler.Process, d *sampler.Dictionary, notes []sampler.Note, fromNS int64) (*Recorder, error) {
	path, file, err := newRecording(base)
	if err != nil {
		return nil, err // add no text to the error, because it already has the file's name
	}
	w, err := recording.NewWriter(file, p, d)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("recording process %d to %s: %w", p.PID, path, err), file.Close())
	}
	w.Live(true)
	r := &Recorder{Path: path, File: file, W: w}
	for _, n := range notes {
		if n.AtNS >= fromNS {
			r.notes = append(r.notes, n)
		}
	}
	s.mu.Lock() // samples that come during this time wait, and are written later
	defer s.mu.Unlock()
	s.drain()
	if err := s.History.Range(fromNS, math.MaxInt64, r.write); err != nil && r.err == nil {
		r.err = err
	}
	s.Rec = r
	return r, nil
}

// Note adds a note to the current recording, if there is one. The note is written before the next sample.
func (s *Store) Note(n sampler.Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Rec != nil {
		s.Rec.notes = append(s.Rec.notes, n)
	}
}

// StopRecording ends the current recording, if there is one. It waits until the recording is written, or until giveUp
// is closed. If another call is already ending the recording, StopRecording waits for that call's end.
func (s *Store) StopRecording(giveUp <-chan struct{}) (path string, bytes int64, lost uint64, err error) {
	s.mu.Lock()
	s.drain() // these samples came before the end of the recording, so write them, too
	if s.Rec != nil {
		s.ending, s.Rec = s.Rec, nil
	}
	r := s.ending
	s.mu.Unlock()
	if r == nil {
		return "", 0, 0, nil
	}
	var end *sampler.End
	if st := s.State(); st.Ended {
		end = &st.End
	}
	err = r.close(end, giveUp)
	s.mu.Lock()
	if s.ending == r {
		s.ending = nil
	}
	s.mu.Unlock()
	return r.Path, r.W.Bytes(), r.W.Lost(), err
}

// unwrittenFor is how long ddtop, after its screen has ended, waits for a slow disk to write the recordings.
const unwrittenFor = time.Second

// LeaveRecordings ends the recordings of all stores that are not ended yet. It is called after the screen has ended.
func LeaveRecordings(stores ...*Store) error {
	over, done := context.WithTimeout(context.Background(), unwrittenFor)
	defer done()
	var errs []error
	for _, s := range stores {
		_, _, _, err := s.StopRecording(over.Done())
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Absolute returns the absolute path of a file, which the user can paste in another terminal. If it cannot be found, it
// returns path itself.
func Absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
