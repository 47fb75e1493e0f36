// Package snapshot writes the folder of a snapshot, and an image of the screen. It is the only package below export
// that writes to the disk.
package snapshot

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ddtop/ddtop/export"
	weights "github.com/ddtop/ddtop/export/profile"
	"github.com/ddtop/ddtop/flamegraph"
)

// These are the names of the files of a snapshot.
const (
	profileFile    = "profile.pb.gz"
	threadsFile    = "threads.txt"
	flamegraphFile = "flamegraph.svg"
	screenFile     = "screen.svg"
	screenTextFile = "screen.txt"
	recordingFile  = "history.ddtop"
	summaryFile    = "summary.md"
	heapFile       = "heap.txt"
	heapJSONFile   = "heap.json"
)

// maxSnapshotNames limits how many names for a folder are tried. If a snapshot of the same second exists, the next name
// has another number at its end.
const maxSnapshotNames = 100

// Snapshot is the data that is saved when the user presses the key for a snapshot. If a field is nil, or Screen has no
// rows, the folder lacks the file for it.
type Snapshot struct {
	// Program and PID, together with At, make the name of the folder.
	Program string
	PID     int
	At      time.Time
	Profile *weights.Measured
	Dump    *export.Dump
	Heap    *export.Heap
	Tree    *flamegraph.Tree
	// SVGTitle is the flamegraph's heading.
	SVGTitle string
	// SVGColors are the flamegraph's colours, as on the screen. If it is nil, the default colours are used.
	SVGColors *flamegraph.SVGColors
	// Summary is a text in Markdown: what is wrong with the process, the cause, and what the threads do.
	Summary string
	// Screen is the content of the screen.
	Screen        Screen
	ScreenOptions ScreenOptions
	// Recording writes a recording (a `.ddtop` file) of all samples that are still in ddtop's memory.
	Recording func(io.Writer) error
	// Made is called for each new file, with the folder that contains it. The first call is for the snapshot's folder,
	// and the next calls are for the files in it. Made may be nil.
	Made func(folder *os.Root, made *os.File)
}

// WriteSnapshot writes a folder <program>-<pid>-<time> into an open folder, and returns its name. It first writes the
// folder under a temporary name, and renames it when all files are complete. Stacks and names can be private. So the
// folder has the mode 0700, and its files have 0600. After an error nothing is left behind.
func WriteSnapshot(folder *os.Root, s Snapshot) (name string, err error) {
	tmp := fmt.Sprintf(".ddtop-snapshot-%016x", rand.Uint64())
	if err := folder.Mkdir(tmp, 0o700); err != nil {
		return "", fmt.Errorf("save snapshot of pid %d: %w: choose a folder you may write to", s.PID, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, folder.RemoveAll(tmp))
		}
	}()
	within, err := folder.OpenRoot(tmp)
	if err != nil {
		return "", fmt.Errorf("save snapshot of pid %d: %w", s.PID, err)
	}
	defer within.Close()
	if s.Made != nil {
		if dir, err := within.Open("."); err == nil {
			s.Made(folder, dir)
			_ = dir.Close() // ignore the error: nothing was written through dir
		}
	}
	for _, f := range s.files() {
		if err := s.writeNew(within, f.name, f.write); err != nil {
			return "", fmt.Errorf("save snapshot of pid %d: %w", s.PID, err)
		}
	}
	base := s.folder()
	for n := 1; n <= maxSnapshotNames; n++ {
		name = base
		if n > 1 {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		if _, err := folder.Lstat(name); err == nil {
			continue
		}
		// Another program may have made a folder of this name since Lstat. If that folder is not empty, rename refuses
		// to replace it.
		err := folder.Rename(tmp, name)
		if err == nil {
			return name, nil
		}
		if _, statErr := folder.Lstat(name); statErr != nil {
			return "", fmt.Errorf("save snapshot of pid %d: %w", s.PID, err)
		}
	}
	return "", fmt.Errorf("save snapshot of pid %d: %s and %d names like it exist: move some of them away", s.PID, base, maxSnapshotNames-1)
}

// writeNew writes a new file. It never replaces a file or follows a link.
func (s *Snapshot) writeNew(folder *os.Root, name string, write func(io.Writer) error) error {
	f, err := folder.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if s.Made != nil {
		s.Made(folder, f)
	}
	if err := errors.Join(write(f), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

type snapshotFile struct {
	name  string
	write func(io.Writer) error
}

func (s *Snapshot) files() []snapshotFile {
	var f []snapshotFile
	add := func(there bool, name string, write func(io.Writer) error) {
		if there {
			f = append(f, snapshotFile{name, write})
		}
	}
	text := func(text string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		}
	}
	add(s.Profile != nil, profileFile, func(w io.Writer) error { return weights.WriteProfile(w, *s.Profile) })
	add(s.Dump != nil, threadsFile, func(w io.Writer) error { return s.Dump.WriteText(w) })
	add(s.Tree != nil, flamegraphFile, func(w io.Writer) error { return s.Tree.WriteSVGIn(w, s.SVGTitle, s.SVGColors) })
	screen := len(s.Screen.Rows) > 0
	add(screen, screenFile, func(w io.Writer) error { return ScreenSVG(w, s.Screen, s.ScreenOptions) })
	add(screen, screenTextFile, text(s.Screen.Text))
	add(s.Summary != "", summaryFile, text(s.Summary))
	add(s.Recording != nil, recordingFile, s.Recording)
	add(s.Heap != nil, heapFile, func(w io.Writer) error { return s.Heap.WriteText(w) })
	add(s.Heap != nil, heapJSONFile, func(w io.Writer) error { return s.Heap.WriteJSON(w) })
	return f
}

func (s *Snapshot) folder() string { return Stem(s.Program, s.PID, s.At) }

// Stem returns <program>-<pid>-<time>, the name of a file or folder about a process. The program's name comes from the
// target: only letters, digits, dot, dash and underscore are kept, at most 64 of them, and no leading dot.
func Stem(program string, pid int, at time.Time) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, filepath.Base(program))
	name = strings.TrimLeft(name, ".-")
	if len(name) > 64 {
		name = name[:64]
	}
	if name == "" {
		name = "ruby"
	}
	return fmt.Sprintf("%s-%d-%s", name, pid, at.Format("20060102-150405"))
}
