package thread

import (
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/ddtop/ddtop/sampler"
)

const (
	// maxSourceBytes limits the size of a source file that the page reads, and maxSourceLines the number of its lines.
	// maxSourceFiles limits how many files the page keeps in memory.
	maxSourceBytes = 2 << 20
	maxSourceLines = 1 << 16
	maxSourceFiles = 16
)

// SourceFile is a source file of the target's program, as lines. If the file could not be read, Err is the error.
type SourceFile struct {
	Lines []string
	// Newer is true if the file changed after the program started. The program may then run older code than the file
	// has.
	Newer bool
	Err   error
	// pending is true while the file is being read.
	pending bool
}

// SourceMsg delivers a file that was read.
type SourceMsg struct {
	Path string
	File *SourceFile
}

// ForPage marks SourceMsg as a message for pages.
func (SourceMsg) ForPage() {}

// sources are the files read so far, by their path in the target.
type sources struct {
	files map[string]*SourceFile
	order []string // oldest first
}

// get returns a file. It returns nil if the file was never requested.
func (s *sources) get(path string) *SourceFile { return s.files[path] }

// put stores a file. If there are too many files, it drops the file that was stored first.
func (s *sources) put(path string, f *SourceFile) {
	if s.files == nil {
		s.files = make(map[string]*SourceFile)
	}
	if s.files[path] == nil {
		if len(s.order) >= maxSourceFiles {
			delete(s.files, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, path)
	}
	s.files[path] = f
}

// fileReader is a sampler.Source that can read the source files of its process. It may read only files that the process
// itself may read.
type fileReader interface {
	ReadFile(path string, limit int64) (content []byte, modified time.Time, err error)
}

// fetch returns the command that reads a file from the target's file system. startedAt is when the target started.
func (s *sources) fetch(src sampler.Source, path string, startedAt time.Time) tea.Cmd {
	if s.get(path) != nil {
		return nil
	}
	files, ok := src.(fileReader)
	if !ok {
		s.put(path, &SourceFile{Err: errors.New("it can't be read through this source")})
		return nil
	}
	s.put(path, &SourceFile{pending: true})
	return func() tea.Msg { return SourceMsg{path, readSource(files, path, startedAt)} }
}

// startSlack decides whether a file has changed since the process started. It has if the file is newer than the start
// by more than startSlack. The start is known only to 10 ms, and files are often written just before the program
// starts. A program reads few files in its first second, so this tolerance does little harm.
const startSlack = time.Second

// readSource reads the lines of a file.
func readSource(files fileReader, path string, startedAt time.Time) *SourceFile {
	content, modified, err := files.ReadFile(path, maxSourceBytes)
	if err != nil {
		return &SourceFile{Err: err}
	}
	out := &SourceFile{Newer: !startedAt.IsZero() && modified.Sub(startedAt) > startSlack}
	for line := range strings.Lines(string(content)) {
		if len(out.Lines) == maxSourceLines {
			break
		}
		out.Lines = append(out.Lines, strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "  "))
	}
	return out
}
