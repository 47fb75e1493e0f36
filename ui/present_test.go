package ui

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ddtop/ddtop/recording"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/ui/internal/demosource"
	"github.com/ddtop/ddtop/ui/scene"
)

// TestFilesNameWhatTheyWereBegunWith: a presentation hides names. It may begin or end while ddtop writes a recording or
// a snapshot. The names in the file must be hidden or shown as at the file's beginning, until its end. The screen says
// what the file contains.
func TestFilesNameWhatTheyWereBegunWith(t *testing.T) {
	const whole, bare, begun = "with all names", "without directories, command line, user and host", "the recording goes on as it was begun"
	for _, x := range []struct {
		name          string
		before, while []string
		directories   bool
		said          string
	}{
		{"no presentation", nil, nil, true, ""},
		{"it begins", nil, []string{"P"}, true, whole},
		{"it ends", []string{"P"}, []string{"P"}, false, bare},
		{"it begins and ends", nil, []string{"P", "P"}, true, whole},
		{"it goes on", []string{"P"}, nil, false, ""},
	} {
		s := newScreen(t, 140, 40, demosource.Options{Length: 3 * time.Second}, scene.Options{Folder: t.TempDir()})
		s.press(x.before...)
		began := s.press("W")[0]().(recordingMsg)
		if began.err != nil {
			t.Fatal(began.err)
		}
		s.model.Update(began)
		if strings.Contains(s.text(), bare) == x.directories {
			t.Errorf("%s: the screen does not say what the recording holds:\n%s", x.name, s.text())
		}
		save := s.press("s")[0] // the key s copies the screen at once, and its command reads the rest later
		s.press(x.while...)
		if x.said != "" && !strings.Contains(s.text(), begun+", "+x.said) {
			t.Errorf("%s: the screen does not say that the recording stays:\n%s", x.name, s.text())
		}
		for _, sample := range record(t, demosource.Options{Length: 3 * time.Second}) {
			sample.TimeNS += 3e9
			s.store.Feed(sample)
		}
		saved := save().(savedMsg)
		if saved.err != nil {
			t.Fatal(saved.err)
		}
		if _, _, _, err := s.store.StopRecording(nil); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{began.path, filepath.Join(saved.path, "history.ddtop")} {
			with, without, user := namesIn(t, path)
			if x.directories && (with == 0 || user == "") || !x.directories && (with != 0 || without == 0 || user != "") {
				t.Errorf("%s: %s has %d files with directories, %d without, user %q", x.name, path, with, without, user)
			}
		}
	}
}

// namesIn reads a recording. It counts the frames whose path has a directory, and the frames whose path has none.
func namesIn(t *testing.T, path string) (with, without int, user string) {
	t.Helper()
	r, err := recording.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	err = r.Run(t.Context(), func(s *sampler.Sample) {
		for i := range s.Threads {
			for _, id := range r.Dictionary().Frames(s.Threads[i].Stack, nil) {
				switch f := r.Dictionary().Frame(id); {
				case strings.Contains(f.AbsolutePath, "/"):
					with++
				case f.AbsolutePath != "":
					without++
				}
			}
		}
	})
	if !errors.Is(err, sampler.ErrEnded) {
		t.Fatal(err)
	}
	return with, without, r.Process().User
}

// TestPresentationHidesAllProcesses: a presentation hides the directories of all processes, also of processes that are
// not shown and of processes that join later.
func TestPresentationHidesAllProcesses(t *testing.T) {
	s := clusterScreen(t, 200, 50, scene.Options{})
	s.press("P")
	if late := s.fleet.join(newCluster().list[1].Source); !late.Store.Dict.HidesDirectories() {
		t.Error("the directories of a process that joined later show")
	}
	for _, m := range s.fleet.List() {
		if !m.Store.Dict.HidesDirectories() {
			t.Errorf("process %d: directories show", m.Store.Process().PID)
		}
	}
	s.press("P")
	for _, m := range s.fleet.List() {
		if m.Store.Dict.HidesDirectories() {
			t.Errorf("process %d: directories are still hidden", m.Store.Process().PID)
		}
	}
}
