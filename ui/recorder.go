package ui

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/internal/units"
	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
)

// recorder writes the stream of samples to a file while it comes. Its file is readable up to the last two seconds
// however ddtop ends.
type recorder struct {
	path string
	file *os.File
	w    *recording.Writer
	err  error // the first; nothing is written after it
	// notes are those that the next write takes along.
	notes []sampler.Note

	once   sync.Once
	done   chan struct{} // closed when the file is
	closed error         // how that went
}

// write adds a sample; it is called for one at a time.
func (r *recorder) write(s *sampler.Sample) {
	r.writeNotes()
	if r.err == nil {
		r.err = r.w.Write(s)
	}
}

func (r *recorder) writeNotes() {
	for len(r.notes) > 0 && r.err == nil {
		err := r.w.Note(r.notes[0])
		if errors.Is(err, recording.ErrSlow) {
			return // there will be room when the disk has taken something
		}
		r.err, r.notes = err, r.notes[1:]
	}
}

// close writes what is left and closes the file, on a goroutine of its own that is left to itself when giveUp is closed first:
// a disk may hang. Further calls wait for what the first one began. write is not to be called any more.
func (r *recorder) close(end *sampler.End, giveUp <-chan struct{}) error {
	r.once.Do(func() {
		r.done = make(chan struct{})
		go func() {
			defer close(r.done)
			r.w.Live(false)
			r.writeNotes()
			if r.closed = errors.Join(r.err, r.w.Close(end), r.file.Close()); r.closed != nil {
				r.closed = fmt.Errorf("recording to %s: %w", r.path, r.closed)
			}
		}()
	})
	select {
	case <-r.done:
		return r.closed
	case <-giveUp:
		return fmt.Errorf("recording to %s: %w", r.path, r.w.Unwritten())
	}
}

// maxRecordings bounds the names tried when a recording of the same second exists.
const maxRecordings = 100

// newRecording makes a file named after base (mode 0600, since stacks and names can be private), in a folder that is made if it
// isn't there (0700). It is made within the folder as that is open: whoever owns it could put a link in its place.
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

// record begins a recording in a new file named after base. It holds the samples and notes from fromNS on, their names as d
// gives them, those of the history included that came while the file was being made.
func (s *Store) record(base string, p sampler.Process, d *sampler.Dictionary, notes []sampler.Note, fromNS int64) (*recorder, error) {
	path, file, err := newRecording(base)
	if err != nil {
		return nil, err // names the file
	}
	w, err := recording.NewWriter(file, p, d)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("recording process %d to %s: %w", p.PID, path, err), file.Close())
	}
	w.Live(true)
	r := &recorder{path: path, file: file, w: w}
	for _, n := range notes {
		if n.AtNS >= fromNS {
			r.notes = append(r.notes, n)
		}
	}
	s.mu.Lock() // samples that come meanwhile wait, and are written after these
	defer s.mu.Unlock()
	s.drain()
	if err := s.history.Range(fromNS, math.MaxInt64, r.write); err != nil && r.err == nil {
		r.err = err
	}
	s.rec = r
	return r, nil
}

// note puts a note into the recording that goes on, if any, before its next sample.
func (s *Store) note(n sampler.Note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rec != nil {
		s.rec.notes = append(s.rec.notes, n)
	}
}

// stopRecording ends the recording that goes on, if any, and waits until it is written or giveUp is closed; so it does for one
// that is being ended already.
func (s *Store) stopRecording(giveUp <-chan struct{}) (path string, bytes int64, lost uint64, err error) {
	s.mu.Lock()
	s.drain() // they came before the end
	if s.rec != nil {
		s.ending, s.rec = s.rec, nil
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
	return r.path, r.w.Bytes(), r.w.Lost(), err
}

// unwrittenFor is how long the end of the screen waits for the disk that recordings go to.
const unwrittenFor = time.Second

// leaveRecordings ends the recordings that go on when the screen has been left.
func leaveRecordings(stores ...*Store) error {
	over, done := context.WithTimeout(context.Background(), unwrittenFor)
	defer done()
	var errs []error
	for _, s := range stores {
		_, _, _, err := s.stopRecording(over.Done())
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// failing reports why the recording that goes on can't be written any more.
func (m *Model) failing(r *reading) {
	if r.recLost > m.recLost && m.recording {
		m.message, m.problem = fmt.Sprintf("the disk is slow: %s samples are missing in the recording", units.Count(int64(r.recLost))), true
	}
	m.recLost = r.recLost
	if r.recErr != nil && m.recording {
		m.recording = false
		m.message, m.problem = "the recording ended early: "+r.recErr.Error(), true
	}
}

// recordingMsg says that a recording has begun (bytes is 0) or has ended.
type recordingMsg struct {
	path  string
	bytes int64
	// lost is how many samples the disk was too slow for.
	lost uint64
	err  error
}

// toggleRecording begins a recording, or ends the one that goes on.
func (m *Model) toggleRecording() tea.Cmd {
	store := m.store
	if m.recBusy { // the file of the last press is still being opened or closed: this press waits for it
		m.recAgain = !m.recAgain
		return nil
	}
	if m.recording {
		m.recording, m.recBusy = false, true
		m.message = "ending the recording …"
		return func() tea.Msg {
			path, bytes, lost, err := store.stopRecording(nil)
			return recordingMsg{path, max(bytes, 1), lost, err}
		}
	}
	if m.lastNS == 0 || m.source.Done {
		m.message, m.problem = "nothing to record: no samples come", true
		return nil
	}
	base := filepath.Join(m.opt.Folder, export.Stem(m.process.Title, m.process.PID, m.process.WallTime(m.lastNS)))
	notes := m.sharedNotes()
	process, dict, fromNS := m.shareable(), m.store.dict.View(), m.lastNS // what the screen shows now is its beginning
	m.recordedWith = m.leftOut()
	m.recording, m.recBusy = true, true
	return func() tea.Msg {
		// One that failed, as the screen has said, is closed first.
		_, _, _, _ = store.stopRecording(nil)
		r, err := store.record(base, process, dict, notes, fromNS)
		if err != nil {
			return recordingMsg{err: err}
		}
		return recordingMsg{path: absolute(r.path)}
	}
}

// recorded shows where the recording goes, or is.
func (m *Model) recorded(msg recordingMsg) tea.Cmd {
	defer m.draw()
	m.recBusy = false
	again := m.recAgain
	m.recAgain = false
	switch {
	case msg.err != nil:
		m.recording = false
		m.message, m.problem = "not recorded: "+msg.err.Error(), true
		return nil
	case msg.bytes == 0:
		m.message, m.problem, m.named = "recording to "+msg.path+m.recordedWith+"   W ends it", false, []string{msg.path}
		if again {
			return m.toggleRecording()
		}
		return nil
	}
	m.message, m.problem = fmt.Sprintf("recorded %s, and the path copied: %s", units.Bytes(msg.bytes), absolute(msg.path)), false
	if msg.lost > 0 {
		m.message += fmt.Sprintf(" (%s samples are missing: the disk was too slow)", units.Count(int64(msg.lost)))
	}
	m.named = []string{absolute(msg.path)}
	copied := m.copyPath(absolute(msg.path))
	if again {
		return tea.Batch(copied, m.toggleRecording())
	}
	return copied
}

// absolute returns a path that can be pasted into another terminal; the path itself where that can't be told.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
