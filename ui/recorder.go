package ui

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/export"
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
	closed error
}

// write adds a sample; it is called for one at a time.
func (r *recorder) write(s *sampler.Sample) {
	r.writeNotes()
	if r.err == nil {
		r.err = r.w.Write(s)
	}
}

func (r *recorder) writeNotes() {
	for _, n := range r.notes {
		if r.err == nil {
			r.err = r.w.Note(n)
		}
	}
	r.notes = r.notes[:0]
}

// close writes what is left; further calls return what the first one did.
func (r *recorder) close(end *sampler.End) error {
	r.once.Do(func() {
		r.writeNotes()
		r.closed = errors.Join(r.err, r.w.Close(end), r.file.Close())
		if r.closed != nil {
			r.closed = fmt.Errorf("recording to %s: %w", r.path, r.closed)
		}
	})
	return r.closed
}

// maxRecordings bounds the names tried when a recording of the same second exists.
const maxRecordings = 100

// record begins a recording in a new file named after base (mode 0600, since stacks and names can be private). It holds
// the samples and notes from fromNS on, those of the history included that came while the file was being made.
func (s *Store) record(base string, p sampler.Process, notes []sampler.Note, fromNS int64) (*recorder, error) {
	var file *os.File
	var err error
	for n := 1; n <= maxRecordings; n++ {
		path := base + ".ddtop"
		if n > 1 {
			path = fmt.Sprintf("%s-%d.ddtop", base, n)
		}
		if file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); !errors.Is(err, os.ErrExist) {
			break
		}
	}
	if err != nil {
		return nil, err // names the file
	}
	w, err := recording.NewWriter(file, p, s.dict)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("recording process %d to %s: %w", p.PID, file.Name(), err), file.Close())
	}
	r := &recorder{path: file.Name(), file: file, w: w}
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

// stopRecording ends the recording that goes on, if any, and waits until it is written.
func (s *Store) stopRecording() (path string, bytes int64, err error) {
	s.mu.Lock()
	s.drain() // they came before the end
	r := s.rec
	s.rec = nil
	s.mu.Unlock()
	if r == nil {
		return "", 0, nil
	}
	var end *sampler.End
	if st := s.State(); st.Ended {
		end = &st.End
	}
	err = r.close(end)
	return r.path, r.w.Bytes(), err
}

// failing reports why the recording that goes on can't be written any more.
func (m *Model) failing(r *reading) {
	if r.recErr != nil && m.recording {
		m.recording = false
		m.message, m.problem = "the recording ended early: "+r.recErr.Error(), true
	}
}

// recordingMsg tells that a recording has begun (bytes is 0) or has ended.
type recordingMsg struct {
	path  string
	bytes int64
	err   error
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
			path, bytes, err := store.stopRecording()
			return recordingMsg{path, max(bytes, 1), err}
		}
	}
	if m.lastNS == 0 || m.source.Done {
		m.message, m.problem = "nothing to record: no samples come", true
		return nil
	}
	base := filepath.Join(m.opt.Folder, export.Stem(m.process.Title, m.process.PID, m.process.WallTime(m.lastNS)))
	notes := m.sharedNotes()
	process, fromNS := m.shareable(), m.lastNS // what the screen shows now is its beginning
	m.recording, m.recBusy = true, true
	return func() tea.Msg {
		// One that failed, as the screen has said, is closed first.
		_, _, _ = store.stopRecording()
		r, err := store.record(base, process, notes, fromNS)
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
		m.message, m.problem = "recording to "+msg.path+"   W ends it", false
		if again {
			return m.toggleRecording()
		}
		return nil
	}
	m.message, m.problem = fmt.Sprintf("recorded %s, and the path copied: %s", size(msg.bytes), absolute(msg.path)), false
	copied := m.copy(absolute(msg.path))
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
